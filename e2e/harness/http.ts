import { request } from 'node:http';
import { request as secureRequest } from 'node:https';
import { until, untilValue, type UntilOptions } from './until.ts';

/** Sends a GET over plain HTTP on a new connection, so that a Service balances every call. */
export function httpGet(url: string, timeoutMs = 5_000): Promise<{ readonly status: number; readonly body: string }> {
  return new Promise((resolve, reject) => {
    const call = request(url, { agent: false, timeout: timeoutMs, headers: { connection: 'close' } }, (response) => {
      let body = '';
      response
        .setEncoding('utf8')
        .on('data', (text: string) => {
          if (body.length < 1 << 20) body += text;
        })
        .on('end', () => resolve({ status: response.statusCode ?? 0, body }))
        .on('error', reject);
    });
    call.on('error', reject).on('timeout', () => call.destroy(new Error(`${url}: no answer within ${timeoutMs} ms`)));
    call.end();
  });
}

/** Repeats a GET until the trimmed body equals the expected one. */
export async function untilBodyEquals(url: string, wanted: string): Promise<void> {
  await untilValue(
    `${wanted} at ${url}`,
    () => httpGet(url).then(({ body }) => body.trim(), String),
    (body) => body === wanted,
  );
}

/** Repeats a GET until every value of `wanted` has been returned once; a Service routes each call to one of its pods. Returns all bodies. */
export async function untilAnswers(url: string, wanted: readonly string[], options: UntilOptions = {}): Promise<ReadonlySet<string>> {
  const seen = new Set<string>();
  try {
    await until(
      `answers of ${wanted.join(', ')} at ${url}`,
      async () => {
        const { status, body } = await httpGet(url);
        if (status !== 200) throw new Error(`status ${status}`);
        seen.add(body.trim());
        return wanted.every((each) => seen.has(each));
      },
      { everyMs: 5, ...options },
    );
  } catch (error) {
    throw new Error(`${(error as Error).message}; seen: ${[...seen].join(', ') || 'none'}`, { cause: error });
  }
  return seen;
}

/** Returns the status code of a GET over HTTPS. */
export function httpsStatus(url: string, tls: { readonly ca: string; readonly cert?: string; readonly key?: string }): Promise<number> {
  return new Promise((resolve, reject) => {
    secureRequest(url, { agent: false, timeout: 30_000, ...tls }, (response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    })
      .on('error', reject)
      .end();
  });
}
