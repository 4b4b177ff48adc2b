"""What commands share: output, pager, progress bar, completion, words, and which run or event the user means."""
