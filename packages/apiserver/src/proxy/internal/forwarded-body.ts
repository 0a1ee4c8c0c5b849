import type { ClientRequest, IncomingHttpHeaders, OutgoingHttpHeaders } from 'node:http';
import { Transform, type Readable } from 'node:stream';
import { badRequest } from '@oarlock/api/status';
import type { Exchange } from '../../http/exchange.ts';

/** The headers that apply to one connection only (RFC 9110, section 7.6.1), in addition to headers that `Connection` names. */
const hopByHop: ReadonlySet<string> = new Set([
  'connection',
  'http2-settings',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/** Returns a predicate that is true for header names, in lower case, that apply to one connection and are not forwarded. */
export function connectionHeaders(connection: string | undefined): (name: string) => boolean {
  const named = new Set((connection ?? '').split(',').map((name) => name.trim().toLowerCase()));
  return (name) => hopByHop.has(name) || named.has(name);
}

/**
 * Rejects transfer codings that a proxy would hide from the recipient by removing `Transfer-Encoding`, and closes the connection (RFC 9112, section
 * 6.1). HTTP/2 has no such header.
 * @throws StatusError `BadRequest` if the request has such a coding
 */
export function checkTransferCoding(exchange: Pick<Exchange, 'headers' | 'setHeader'>): void {
  const coding = exchange.headers['transfer-encoding'];
  if (coding === undefined || coding.trim().toLowerCase() === 'chunked') return;
  exchange.setHeader('Connection', 'close');
  throw badRequest(`unsupported transfer encoding ${JSON.stringify(coding)}`);
}

/**
 * Rejects an upgrade request with a body, whose bytes would be read as part of the upgraded protocol or as another request.
 * @throws StatusError `BadRequest` if the request has a body
 */
export function checkUpgradeBody(headers: IncomingHttpHeaders): void {
  if (headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) !== 0)
    throw badRequest('an upgrade request must not have a body');
}

/**
 * Returns the headers of a forwarded request with the framing of its body: the declared length, otherwise chunks. Node.js frames bodies of POST, PUT
 * and PATCH itself, but not of GET, HEAD, DELETE and OPTIONS: the backend would read such a body as the next request.
 */
export function framed(headers: OutgoingHttpHeaders, body: Readable | undefined): OutgoingHttpHeaders {
  const { 'content-length': length, ...others } = headers;
  if (body === undefined) return others;
  return length === undefined ? { ...others, 'transfer-encoding': 'chunked' } : { ...others, 'content-length': length };
}

/** Pipes a body into a request. Fails the request if the body is incomplete or its length differs from the declared length. */
export function sendBody(body: Readable, request: ClientRequest): void {
  const declared = request.getHeader('content-length');
  const fail = (error: Error) => {
    request.destroy(error);
  };
  let ended = false;
  body.once('end', () => {
    ended = true;
  });
  body.once('error', fail);
  body.once('close', () => {
    if (!ended) fail(new Error('the client closed the connection before the whole body was read'));
  });
  if (declared === undefined) body.pipe(request);
  else body.pipe(exactly(Number(declared)).once('error', fail)).pipe(request);
}

/** Returns a transform stream that fails if its input does not have exactly `length` bytes. */
function exactly(length: number): Transform {
  const mismatch = () => new Error(`the body of the request is not ${length} bytes long, as its Content-Length declares`);
  let count = 0;
  return new Transform({
    transform(chunk: Buffer, _, done) {
      count += chunk.length;
      if (count > length) done(mismatch());
      else done(null, chunk);
    },
    flush(done) {
      done(count === length ? null : mismatch());
    },
  });
}
