import { connect, constants, type ClientHttp2Session } from 'node:http2';
import type { Api } from '../../harness/api.ts';

/** A small load generator: one HTTP/2 connection with a fixed number of concurrent requests. */
export class LoadGenerator {
  readonly #session: ClientHttp2Session;

  constructor(api: Pick<Api, 'server' | 'tls'>) {
    this.#session = connect(api.server, { ...api.tls, settings: { initialWindowSize: 1 << 20 } });
    this.#session.setMaxListeners(0);
  }

  close(): void {
    this.#session.close();
  }

  /** Sends a merge patch. @throws Error if the status is not 2xx */
  patch(path: string, body: string): Promise<number> {
    return this.request('PATCH', path, body, 'application/merge-patch+json');
  }

  /** Resolves with the length of the body. `type` is the media type of the body, or else of the response. @throws Error if the status is not 2xx */
  request(method: string, path: string, body?: string, type = 'application/json'): Promise<number> {
    return new Promise((resolve, reject) => {
      const stream = this.#session.request({
        [constants.HTTP2_HEADER_METHOD]: method,
        [constants.HTTP2_HEADER_PATH]: path,
        accept: body === undefined ? type : 'application/json',
        ...(body !== undefined && { 'content-type': type }),
      });
      let status = 0;
      let bytes = 0;
      stream.on('response', (headers) => {
        status = Number(headers[':status']);
      });
      stream.on('data', (chunk: Buffer) => {
        bytes += chunk.length;
      });
      stream.once('end', () => {
        if (status >= 200 && status < 300) resolve(bytes);
        else reject(new Error(`${method} ${path} answered ${status}`));
      });
      stream.once('error', reject);
      stream.end(body);
    });
  }

  /** Returns the requests per second over `count` requests, `width` of them concurrent. */
  async rate(
    count: number,
    width: number,
    work: (index: number) => Promise<unknown>,
  ): Promise<{ readonly perSecond: number; readonly times: readonly number[] }> {
    let next = 0;
    const times: number[] = [];
    const began = performance.now();
    await Promise.all(
      Array.from({ length: width }, async () => {
        for (let index = next++; index < count; index = next++) {
          const from = performance.now();
          await work(index);
          times.push(performance.now() - from);
        }
      }),
    );
    return { perSecond: count / ((performance.now() - began) / 1000), times };
  }
}
