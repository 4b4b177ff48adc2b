"""What commands print, as data and lines; nothing here prints."""
