import { createHash, createHmac, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export const keys = { accessKeyId: 'TESTACCESSKEY', secretAccessKey: 'test/secret+key' };

interface Stored {
  readonly body: Buffer;
  readonly modifiedAt: Date;
}

/**
 * A server with the part of S3's API that uploads of snapshots use. It verifies each signature from the bytes of the request line and of the body, as
 * the specification of Signature Version 4 describes and without code of the client, and the time of each request.
 */
export class S3Server {
  readonly objects = new Map<string, Stored>();
  readonly requests: string[] = [];
  /** Status codes of the next responses; undefined handles the request. */
  readonly failures: (number | undefined)[] = [];
  /** Number of keys in one page of a list. */
  pageSize = 1000;
  readonly #uploads = new Map<string, Map<number, Buffer>>();
  readonly #server: Server;
  readonly #now: () => number;
  readonly bucket = 'backups';

  constructor(now: () => number) {
    this.#now = now;
    this.#server = createServer((request, response) => {
      this.#handle(request, response).catch((error: unknown) => this.#fail(response, 500, 'InternalError', String(error)));
    });
  }

  async start(): Promise<this> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return this;
  }
  async stop(): Promise<void> {
    this.#server.close();
    this.#server.closeAllConnections();
    await once(this.#server, 'close');
  }
  get endpoint(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }
  /** Number of uploads in parts that were neither completed nor aborted. */
  get openUploads(): number {
    return this.#uploads.size;
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
    const body = Buffer.concat(chunks);
    const { method = '', url = '' } = request;
    this.requests.push(`${method} ${url}`);
    const planned = this.failures.shift();
    if (planned !== undefined) return this.#fail(response, planned, 'SlowDown', 'Please reduce your request rate.');
    const rejection = this.#rejection(request, body);
    if (rejection !== undefined) return this.#fail(response, 403, rejection, `rejected ${request.headers.authorization ?? ''}`);
    const { pathname, searchParams: query } = new URL(url, this.endpoint);
    const [, bucket, ...rest] = pathname.split('/').map(decodeURIComponent);
    if (bucket !== this.bucket) return this.#fail(response, 404, 'NoSuchBucket', 'The specified bucket does not exist');
    const key = rest.join('/');
    if (key === '' && method === 'GET') return this.#list(response, query);
    if (method === 'POST' || query.has('uploadId')) return this.#multipart(response, { method, key, query, body });
    if (method === 'PUT') {
      this.objects.set(key, { body, modifiedAt: new Date(this.#now()) });
      response.end();
    } else if (method === 'DELETE') {
      this.objects.delete(key);
      response.writeHead(204).end();
    } else {
      const found = this.objects.get(key);
      if (found === undefined) return this.#fail(response, 404, 'NoSuchKey', 'The specified key does not exist.');
      response.end(found.body);
    }
  }

  #multipart(
    response: ServerResponse,
    { method, key, query, body }: { readonly method: string; readonly key: string; readonly query: URLSearchParams; readonly body: Buffer },
  ): void {
    const id = query.get('uploadId');
    if (id === null) {
      const created = randomUUID();
      this.#uploads.set(created, new Map());
      response.end(`<InitiateMultipartUploadResult><UploadId>${created}</UploadId></InitiateMultipartUploadResult>`);
      return;
    }
    const parts = this.#uploads.get(id);
    if (parts === undefined) return this.#fail(response, 404, 'NoSuchUpload', 'The specified upload does not exist.');
    if (method === 'PUT') {
      parts.set(Number(query.get('partNumber')), body);
      response.writeHead(200, { etag: `"${digest(body).slice(0, 32)}"` }).end();
      return;
    }
    this.#uploads.delete(id);
    if (method === 'DELETE') {
      response.writeHead(204).end();
      return;
    }
    const listed = [...body.toString().matchAll(/<PartNumber>(\d+)<\/PartNumber><ETag>"(\w+)"<\/ETag>/g)];
    const ordered = listed.map(([, number]) => parts.get(Number(number)) ?? Buffer.alloc(0));
    if (listed.some(([, , tag], index) => tag !== digest(ordered[index] ?? '').slice(0, 32)))
      return this.#fail(response, 400, 'InvalidPart', 'One or more of the specified parts could not be found.');
    this.objects.set(key, { body: Buffer.concat(ordered), modifiedAt: new Date(this.#now()) });
    response.end('<CompleteMultipartUploadResult></CompleteMultipartUploadResult>');
  }

  #list(response: ServerResponse, query: URLSearchParams): void {
    const after = query.get('continuation-token') ?? '';
    const names = [...this.objects.keys()].filter((key) => key.startsWith(query.get('prefix') ?? '') && key > after).sort();
    const page = names.slice(0, this.pageSize);
    const isTruncated = names.length > page.length;
    const contents = page.map((key) => {
      const { body, modifiedAt } = this.objects.get(key) as Stored;
      return `<Contents><Key>${encodeURIComponent(key)}</Key><LastModified>${modifiedAt.toISOString()}</LastModified><Size>${body.length}</Size></Contents>`;
    });
    const next = isTruncated ? `<NextContinuationToken>${page.at(-1)}</NextContinuationToken>` : '';
    response.end(
      `<?xml version="1.0"?><ListBucketResult><IsTruncated>${isTruncated}</IsTruncated>${next}${contents.join('')}</ListBucketResult>`,
    );
  }

  #fail(response: ServerResponse, status: number, code: string, message: string): void {
    response.writeHead(status).end(`<?xml version="1.0"?><Error><Code>${code}</Code><Message>${message}</Message></Error>`);
  }

  /** Returns the code of an error unless the signature and the time of a request are valid. */
  #rejection({ method = '', url = '', headers }: IncomingMessage, body: Buffer): string | undefined {
    const match =
      /^AWS4-HMAC-SHA256 Credential=(\w+)\/(\d{8})\/([\w-]+)\/s3\/aws4_request,SignedHeaders=([\w;-]+),Signature=(\w{64})$/.exec(
        headers.authorization ?? '',
      );
    if (match === null) return 'AuthorizationHeaderMalformed';
    const [, access, day = '', region = '', names = '', signature] = match;
    if (access !== keys.accessKeyId) return 'InvalidAccessKeyId';
    const time = String(headers['x-amz-date']);
    const [, y, mo, d, h, mi, s] = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(time) ?? [];
    const sentAt = Date.parse(`${y}-${mo}-${d}T${h}:${mi}:${s}Z`);
    if (!(Math.abs(sentAt - this.#now()) <= 15 * 60_000)) return 'RequestTimeTooSkewed';
    if (headers['x-amz-content-sha256'] !== digest(body)) return 'XAmzContentSHA256Mismatch';
    if (!names.split(';').includes('host')) return 'SignatureDoesNotMatch';
    const [path = '', query = ''] = url.split('?');
    const canonical = `${method}\n${path}\n${query.split('&').sort().join('&')}\n${names
      .split(';')
      .map((name) => `${name}:${String(headers[name] ?? '').trim()}\n`)
      .join('')}\n${names}\n${digest(body)}`;
    let key: Buffer = Buffer.from(`AWS4${keys.secretAccessKey}`);
    for (const part of [day, region, 's3', 'aws4_request']) key = createHmac('sha256', key).update(part).digest();
    const text = `AWS4-HMAC-SHA256\n${time}\n${day}/${region}/s3/aws4_request\n${digest(canonical)}`;
    return createHmac('sha256', key).update(text).digest('hex') === signature ? undefined : 'SignatureDoesNotMatch';
  }
}

const digest = (data: string | Buffer): string => createHash('sha256').update(data).digest('hex');
