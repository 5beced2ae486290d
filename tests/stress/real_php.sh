#!/bin/bash
# test timeout: 600
# php: its own allocator and malloc(), with the extensions of Debian, which it
# opens with RTLD_DEEPBIND, in each mode, hardened and debugged.
set -u
# shellcheck source=/dev/null
. "$TOP/tests/programs/real/real.inc"
need php
cat >script.php <<'END'
<?php
foreach (['bcmath', 'bz2', 'curl', 'dom', 'exif', 'fileinfo', 'gd', 'gettext',
    'gmp', 'iconv', 'intl', 'mbstring', 'mysqli', 'mysqlnd', 'pdo_mysql',
    'pdo_sqlite', 'readline', 'SimpleXML', 'soap', 'sodium', 'sqlite3', 'xml',
    'xmlreader', 'xmlwriter', 'xsl', 'zip', 'zlib'] as $name)
	if (!extension_loaded($name))
		echo "no $name\n";

/* Documents, transformed and validated. */
$text = '<list>';
for ($i = 0; $i < 5000; $i++)
	$text .= "<item id='$i'><name>näme $i</name></item>";
$text .= '</list>';
$document = new DOMDocument();
$document->loadXML($text);
foreach ((new DOMXPath($document))->query('//item[@id mod 3 = 0]') as $node)
	$node->parentNode->removeChild($node);
$style = new DOMDocument();
$style->loadXML('<xsl:stylesheet version="1.0" ' .
    'xmlns:xsl="http://www.w3.org/1999/XSL/Transform">' .
    '<xsl:template match="item"><xsl:value-of select="name"/>;</xsl:template>' .
    '</xsl:stylesheet>');
$transform = new XSLTProcessor();
$transform->importStylesheet($style);
echo md5($transform->transformToXML($document)), "\n";
$simple = simplexml_load_string($text);
echo count($simple->item), ' ', $simple->item[4999]->name, "\n";
$reader = XMLReader::XML($text);
for ($n = 0; $reader->read();)
	$n++;
echo $n, "\n";
$reader->close();
libxml_use_internal_errors(true);
var_dump((new DOMDocument())->loadXML('<a><b></a>'));
echo count(libxml_get_errors()), "\n";

/* Text. */
$many = mb_convert_encoding(str_repeat('größe ', 20000), 'UTF-16BE', 'UTF-8');
echo mb_strlen($many, 'UTF-16BE'), ' ', md5(mb_strtoupper('größe')), ' ',
    md5(iconv('UTF-16BE', 'UTF-8', $many)), "\n";
echo preg_match_all('/(\w+)\s/u', str_repeat('größe ', 3000), $found), "\n";
echo (new Collator('de_DE'))->compare('ä', 'z'),
    (new NumberFormatter('de_DE', NumberFormatter::DECIMAL))->format(12345.5),
    "\n";

/* A data base, archives, pictures, big numbers. */
$base = new PDO('sqlite::memory:');
$base->exec('create table t(a integer primary key, b text)');
$insert = $base->prepare('insert into t(b) values(?)');
for ($i = 0; $i < 20000; $i++)
	$insert->execute([md5($i)]);
echo md5(json_encode($base->query(
    'select substr(b,1,2) k, count(*) n from t group by k')->fetchAll())), "\n";
foreach (['gzcompress' => 'gzuncompress', 'bzcompress' => 'bzdecompress'] as
    $pack => $unpack)
	var_dump($unpack($pack($text)) === $text);
$zip = new ZipArchive();
$zip->open('a.zip', ZipArchive::CREATE | ZipArchive::OVERWRITE);
for ($i = 0; $i < 50; $i++)
	$zip->addFromString("f$i", str_repeat($text, 2));
$zip->close();
$zip->open('a.zip');
echo $zip->numFiles, ' ', md5($zip->getFromIndex(49)), "\n";
$picture = imagecreatetruecolor(800, 600);
for ($i = 0; $i < 2000; $i++)
	imageline($picture, $i % 800, 0, 799 - $i % 800, 599, $i * 4711 % 16777216);
ob_start();
imagepng(imagescale($picture, 300));
echo md5(ob_get_clean()), "\n";
echo md5(gmp_strval(gmp_pow(3, 20000))), ' ', bcpow('7', '300'), "\n";
echo strlen(sodium_crypto_secretbox('text', str_repeat('n', 24),
    str_repeat('k', 32))), "\n";

/* A server that is not there, and a file by curl. */
mysqli_report(MYSQLI_REPORT_OFF);
for ($i = 0; $i < 20; $i++)
	var_dump(@mysqli_connect('127.0.0.1', 'nobody', '', '', 9));
file_put_contents('page', $text);
for ($i = 0; $i < 20; $i++) {
	$curl = curl_init('file://' . getcwd() . '/page');
	curl_setopt($curl, CURLOPT_RETURNTRANSFER, true);
	$same = curl_exec($curl) === $text;
	curl_close($curl);
}
var_dump($same);
END
# PHP's own allocator hides its blocks from malloc(), so it is off in half of
# the runs.
run() { with "$1" env USE_ZEND_ALLOC="$2" php ../script.php; }
if php script.php 2>/dev/null | grep '^no '; then
	exit 77
fi
for own in 0 1; do
	in_each run $own
	for way in UMEM_OPTIONS=hardened UMEM_DEBUG=default; do
		env "$way" USE_ZEND_ALLOC=$own LD_PRELOAD="$SHIM" \
		    php script.php >said 2>&1
		echo "status $?" >>said
		cmp -s said.none said && continue
		echo "$way, USE_ZEND_ALLOC=$own:"
		diff said.none said | head -40
		exit 1
	done
done
