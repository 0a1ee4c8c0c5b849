import { createHash, createHmac } from 'node:crypto';

/** Keys of an S3-compatible store. */
export interface S3Credentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  /** The token of temporary credentials. */
  readonly sessionToken?: string | undefined;
}

export interface RequestToSign {
  readonly method: string;
  readonly url: URL;
  /** Headers that the request has besides those that signing adds; names in lower case. */
  readonly headers?: Readonly<Record<string, string>>;
  /** SHA-256 of the body in hexadecimal. */
  readonly payloadHash: string;
}

export interface SigningScope {
  readonly credentials: S3Credentials;
  readonly region: string;
  /** Milliseconds since the epoch. Stores reject requests whose time differs by more than 15 minutes. */
  readonly now: number;
}

const algorithm = 'AWS4-HMAC-SHA256';
const service = 's3';

export const sha256 = (data: string | Uint8Array): string => createHash('sha256').update(data).digest('hex');
const hmac = (key: string | Uint8Array, text: string): Buffer => createHmac('sha256', key).update(text).digest();

/** Encodes a part of a path or query as AWS Signature Version 4 requires: all but unreserved characters. */
export const encodeComponent = (text: string): string =>
  encodeURIComponent(text).replace(/[!'()*]/g, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`);

/** Returns the headers of a request, with those that authenticate it by AWS Signature Version 4 in the header `authorization`. */
export function signRequest(
  { method, url, headers = {}, payloadHash }: RequestToSign,
  { credentials, region, now }: SigningScope,
): Readonly<Record<string, string>> {
  const time = new Date(now).toISOString().replace(/[-:]|\.\d+/g, '');
  const day = time.slice(0, 8);
  const signed: Readonly<Record<string, string>> = {
    ...headers,
    host: url.host,
    'x-amz-content-sha256': payloadHash,
    'x-amz-date': time,
    ...(credentials.sessionToken !== undefined && { 'x-amz-security-token': credentials.sessionToken }),
  };
  const names = Object.keys(signed).sort();
  const signedHeaders = names.join(';');
  const canonical = [
    method,
    url.pathname,
    canonicalQuery(url.searchParams),
    ...names.map((name) => `${name}:${(signed[name] ?? '').trim().replace(/ +/g, ' ')}`),
    '',
    signedHeaders,
    payloadHash,
  ].join('\n');
  const scope = [day, region, service, 'aws4_request'].join('/');
  const text = [algorithm, time, scope, sha256(canonical)].join('\n');
  const dayKey = hmac(`AWS4${credentials.secretAccessKey}`, day);
  const key = hmac(hmac(hmac(dayKey, region), service), 'aws4_request');
  const signature = hmac(key, text).toString('hex');
  const authorization = `${algorithm} Credential=${credentials.accessKeyId}/${scope},SignedHeaders=${signedHeaders},Signature=${signature}`;
  return { ...signed, authorization };
}

/** Returns the query in the form in which it is signed: sorted, and encoded like paths. */
export function canonicalQuery(query: Iterable<readonly [string, string]>): string {
  const encoded = [...query].map(([name, value]) => [encodeComponent(name), encodeComponent(value)] as const);
  const byName = encoded.sort(([a, one], [b, other]) => (a === b ? compare(one, other) : compare(a, b)));
  return byName.map(([name, value]) => `${name}=${value}`).join('&');
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
