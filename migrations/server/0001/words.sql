-- The words of what a search reads: the same as `files/word_query.py` finds, and for the same texts as
-- `cli/commands/search.py`; tests compare them. An index only proposes: the client reads what it finds, and decides.
-- No function here raises, whatever somebody has put into a payload, since an INSERT calls them.

-- JSON, or NULL for what is none. PostgreSQL's knows no \u0000 and no half of a pair of surrogates: blanks here.
CREATE FUNCTION faber_ledger.parse_json(said text) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE COST 100 SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN said::jsonb;
EXCEPTION WHEN OTHERS THEN
  BEGIN
    RETURN regexp_replace(said, '(?<!\\)((?:\\\\)*)\\u(?:0000|[dD][89a-fA-F][0-9a-fA-F]{2})', '\1 ', 'g')::jsonb;
  EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
  END;
END
$$;

-- The words of a text in small letters, each once, cut after 100 characters: an index takes no longer ones. The letters,
-- and their small ones, are named one by one: what a database's locale says of them would be another database's lie.
-- What an index only sorts anyway may be there twice. A short text of plain letters, which most are, takes a fifth of the
-- time.
CREATE FUNCTION faber_ledger.words_of(said text) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE COST 1000 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  spaced text := btrim(regexp_replace(
    said COLLATE "C",
    '[^0-9A-Za-z\u00aa\u00b5\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u1fff\u2c00-\u2dff\u3005-\u3007\u3021-\ud7ff\uf900-\ufdff\ufe20-\ufe2f\ufe70-\ufefc\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\uff66-\uffdc\U00010000-\U0001efff\U00020000-\U0003ffff]+',
    ' ', 'g'
  ));
BEGIN
  IF octet_length(spaced) <= 100 AND octet_length(spaced) = char_length(spaced) THEN
    RETURN string_to_array(lower(spaced COLLATE "C"), ' ');
  END IF;
  RETURN (
    SELECT array_agg(DISTINCT CASE WHEN octet_length(word) = char_length(word)
      THEN lower(word COLLATE "C")
      ELSE translate(word,
        'ABCDEFGHIJKLMNOPQRSTUVWXYZÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÐÑÒÓÔÕÖØÙÚÛÜÝÞĀĂĄĆĈĊČĎĐĒĔĖĘĚĜĞĠĢĤĦĨĪĬĮĲĴĶĹĻĽĿŁŃŅŇŊŌŎŐŒŔŖŘŚ'
        'ŜŞŠŢŤŦŨŪŬŮŰŲŴŶŸŹŻŽƁƂƄƆƇƉƊƋƎƏƐƑƓƔƖƗƘƜƝƟƠƢƤƦƧƩƬƮƯƱƲƳƵƷƸƼǄǅǇǈǊǋǍǏǑǓǕǗǙǛǞǠǢǤǦǨǪǬǮǱǲǴǶǷǸǺǼǾȀȂȄȆȈȊȌȎȐȒȔȖȘȚ'
        'ȜȞȠȢȤȦȨȪȬȮȰȲȺȻȽȾɁɃɄɅɆɈɊɌɎͰͲͶͿΆΈΉΊΌΎΏΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩΪΫϏϘϚϜϞϠϢϤϦϨϪϬϮϴϷϹϺϽϾϿЀЁЂЃЄЅІЇЈЉЊЋЌЍЎЏАБ'
        'ВГДЕЖЗИЙКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯѠѢѤѦѨѪѬѮѰѲѴѶѸѺѼѾҀҊҌҎҐҒҔҖҘҚҜҞҠҢҤҦҨҪҬҮҰҲҴҶҸҺҼҾӀӁӃӅӇӉӋӍӐӒӔӖӘӚӜӞӠӢӤӦӨӪӬӮӰӲ'
        'ӴӶӸӺӼӾԀԂԄԆԈԊԌԎԐԒԔԖԘԚԜԞԠԢԤԦԨԪԬԮԱԲԳԴԵԶԷԸԹԺԻԼԽԾԿՀՁՂՃՄՅՆՇՈՉՊՋՌՍՎՏՐՑՒՓՔՕՖḀḂḄḆḈḊḌḎḐḒḔḖḘḚḜḞḠḢḤḦḨḪḬḮḰḲḴḶḸḺḼḾ'
        'ṀṂṄṆṈṊṌṎṐṒṔṖṘṚṜṞṠṢṤṦṨṪṬṮṰṲṴṶṸṺṼṾẀẂẄẆẈẊẌẎẐẒẔẞẠẢẤẦẨẪẬẮẰẲẴẶẸẺẼẾỀỂỄỆỈỊỌỎỐỒỔỖỘỚỜỞỠỢỤỦỨỪỬỮỰỲỴỶỸỺỼỾ',
        'abcdefghijklmnopqrstuvwxyzàáâãäåæçèéêëìíîïðñòóôõöøùúûüýþāăąćĉċčďđēĕėęěĝğġģĥħĩīĭįĳĵķĺļľŀłńņňŋōŏőœŕŗřś'
        'ŝşšţťŧũūŭůűųŵŷÿźżžɓƃƅɔƈɖɗƌǝəɛƒɠɣɩɨƙɯɲɵơƣƥʀƨʃƭʈưʊʋƴƶʒƹƽǆǆǉǉǌǌǎǐǒǔǖǘǚǜǟǡǣǥǧǩǫǭǯǳǳǵƕƿǹǻǽǿȁȃȅȇȉȋȍȏȑȓȕȗșț'
        'ȝȟƞȣȥȧȩȫȭȯȱȳⱥȼƚⱦɂƀʉʌɇɉɋɍɏͱͳͷϳάέήίόύώαβγδεζηθικλμνξοπρστυφχψωϊϋϗϙϛϝϟϡϣϥϧϩϫϭϯθϸϲϻͻͼͽѐёђѓєѕіїјљњћќѝўџаб'
        'вгдежзийклмнопрстуфхцчшщъыьэюяѡѣѥѧѩѫѭѯѱѳѵѷѹѻѽѿҁҋҍҏґғҕҗҙқҝҟҡңҥҧҩҫҭүұҳҵҷҹһҽҿӏӂӄӆӈӊӌӎӑӓӕӗәӛӝӟӡӣӥӧөӫӭӯӱӳ'
        'ӵӷӹӻӽӿԁԃԅԇԉԋԍԏԑԓԕԗԙԛԝԟԡԣԥԧԩԫԭԯաբգդեզէըթժիլխծկհձղճմյնշոչպջռսվտրցւփքօֆḁḃḅḇḉḋḍḏḑḓḕḗḙḛḝḟḡḣḥḧḩḫḭḯḱḳḵḷḹḻḽḿ'
        'ṁṃṅṇṉṋṍṏṑṓṕṗṙṛṝṟṡṣṥṧṩṫṭṯṱṳṵṷṹṻṽṿẁẃẅẇẉẋẍẏẑẓẕßạảấầẩẫậắằẳẵặẹẻẽếềểễệỉịọỏốồổỗộớờởỡợụủứừửữựỳỵỷỹỻỽỿ'
      )
    END)
    FROM (SELECT left(piece, 100) AS word FROM unnest(string_to_array(spaced, ' ')) AS piece) AS words
  );
END
$$;

-- The words of an event of a type that is searched, each behind its project and a `=`: in one index for all projects, who
-- looks for a word would else see in how many pages others have it.
CREATE FUNCTION faber_ledger.event_words(of_project text, of_type text, said text) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 2000 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  payload jsonb := faber_ledger.parse_json(said);
  texts text;
BEGIN
  texts := CASE of_type
    WHEN 'note_recorded' THEN payload->>'text'
    WHEN 'compaction_completed' THEN payload->>'summary'
    WHEN 'context_reconstituted' THEN (
      SELECT string_agg(concat_ws(E'\n', finding->>'code', finding->>'told'), E'\n')
      FROM jsonb_array_elements(payload->'findings') AS finding
    )
    ELSE concat_ws(E'\n', payload->>'artifact_id', payload->>'source', payload->>'error')
  END;
  RETURN ARRAY(SELECT of_project || '=' || word FROM unnest(faber_ledger.words_of(texts)) AS word);
EXCEPTION WHEN OTHERS THEN
  RETURN NULL;
END
$$;

-- The words of all texts in a state, but for the two blocks that the ledger gives it; each as of an event.
CREATE FUNCTION faber_ledger.state_words(of_project text, said text) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 10000 SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN ARRAY(
    SELECT of_project || '=' || word FROM unnest(faber_ledger.words_of((
      SELECT string_agg(value #>> '{}', E'\n')
      FROM jsonb_path_query(
        faber_ledger.parse_json(said) - ARRAY['sessions', 'context_metadata'], 'strict $.** ? (@.type() == "string")'
      ) AS value
    ))) AS word
  );
EXCEPTION WHEN OTHERS THEN
  RETURN NULL;
END
$$;

-- With `fastupdate`, the words of one login's pushes would wait for the next one's, who may see none of them.
CREATE INDEX event_words ON faber_ledger.event
  USING gin (faber_ledger.event_words(project, type, payload)) WITH (fastupdate = off)
  WHERE payload IS NOT NULL AND type IN (
    'note_recorded', 'compaction_completed', 'artifact_loaded', 'artifact_failed', 'artifact_skipped',
    'context_reconstituted'
  );

CREATE INDEX state_words ON faber_ledger.state
  USING gin (faber_ledger.state_words(project, content)) WITH (fastupdate = off);
