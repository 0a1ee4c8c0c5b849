// SPDY/3, section 2.6.10.1: the initial dictionary of header block compression. Header names (and a few values) as in a block, each with
// its length; then common strings of values.
const words = `options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow
  authorization cache-control connection content-base content-encoding content-language content-length content-location content-md5
  content-range content-type date etag expect expires from host if-match if-modified-since if-none-match if-range if-unmodified-since
  last-modified location max-forwards pragma proxy-authenticate proxy-authorization range referer retry-after server te trailer
  transfer-encoding upgrade user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie
  keep-alive origin`
  .split(/\s+/)
  .map((word) => word.replace('_', ' '));
const codes = '100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505';
const values = [
  '203 Non-Authoritative Information',
  '204 No Content',
  '301 Moved Permanently',
  '400 Bad Request',
  '401 Unauthorized',
  '403 Forbidden',
  '404 Not Found',
  '500 Internal Server Error',
  '501 Not Implemented',
  '503 Service Unavailable',
  'Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT',
  'chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,',
  'publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.',
];

const sized = (word: string): Buffer => {
  const bytes = Buffer.alloc(4 + word.length, 0);
  bytes.writeUInt32BE(word.length);
  bytes.write(word, 4, 'latin1');
  return bytes;
};

export const headerDictionary: Buffer = Buffer.concat([...words.map(sized), Buffer.from(codes + values.join(''), 'latin1')]);

/** Adler-32 of the dictionary, which identifies it in a zlib stream (RFC 1950, DICTID). */
export const headerDictionaryId = 0xe3c6a7c2;
