import { request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { HTTPGetAction } from '@oarlock/api/types/core-v1';
import { LinkedSignal } from '@oarlock/primitives/concurrency/linked-signal';
import { clientTimeout, connectionEnds, goErrorText, joinHostPort, requestErrorText } from '@oarlock/primitives/net/go-error-text';
import { failed, succeeded, warned, type AttemptOptions, type ProbeAttemptResult } from './probe-result.ts';

const maxBody = 10 * 1024;
const maxRedirects = 10;

export interface HttpTarget {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string | string[]>>;
}

/** Returns the request of an httpGet action. The path may contain a query. */
export function httpTarget(action: HTTPGetAction, host: string, port: number): HttpTarget {
  const scheme = (action.scheme ?? 'HTTP').toLowerCase();
  const path = action.path ?? '/';
  const url = new URL(`${scheme}://${joinHostPort(host, port)}${path.startsWith('/') ? '' : '/'}${path}`);
  const headers: Record<string, string | string[]> = {};
  for (const { name, value } of action.httpHeaders ?? []) {
    const known = headers[name];
    headers[name] = known === undefined ? value : [...(Array.isArray(known) ? known : [known]), value];
  }
  const headerNames = new Set(Object.keys(headers).map((name) => name.toLowerCase()));
  if (!headerNames.has('user-agent')) headers['User-Agent'] = 'kube-probe/1.36';
  if (!headerNames.has('accept')) headers['Accept'] = '*/*';
  return { url, headers };
}

interface ProbeResponse {
  readonly status: number;
  readonly body: string;
  readonly location: string | undefined;
}

function get({ url, headers }: HttpTarget, signal: AbortSignal): Promise<ProbeResponse> {
  return new Promise((resolve, reject) => {
    const options = { method: 'GET', headers, agent: false, signal, rejectUnauthorized: false } as const;
    const take = (response: IncomingMessage) => {
      const chunks: Buffer[] = [];
      let size = 0;
      const done = () =>
        resolve({
          status: response.statusCode ?? 0,
          body: Buffer.concat(chunks).toString('utf8').slice(0, maxBody),
          location: response.headers.location,
        });
      response.on('data', (chunk: Buffer) => {
        chunks.push(chunk);
        size += chunk.length;
        if (size >= maxBody) {
          done();
          response.destroy();
        }
      });
      response.on('end', done);
      response.on('error', reject);
    };
    const request = url.protocol === 'https:' ? httpsRequest(url, options, take) : httpRequest(url, options, take);
    // without this listener, Node.js would report neither the response nor an abort
    request.once('upgrade', (_response, socket) => {
      socket.destroy();
      resolve({ status: 101, body: '', location: undefined });
    });
    const ends = connectionEnds(request);
    request.on('error', (cause) => reject(new Error(goErrorText(cause, ends()), { cause })));
    request.end();
  });
}

const terminated = (body: string) => `Probe terminated redirects, Response body: ${body}`;

/**
 * Probes with a GET request. A status from 200 to 399 is a success; a redirect that is not followed is a success with a warning.
 * Redirects are followed on the same host only.
 */
export async function probeHttp(target: HttpTarget, { timeoutMs, clock, signal }: AttemptOptions): Promise<ProbeAttemptResult> {
  const limited = new LinkedSignal(signal);
  let late = false;
  const timer = clock.after(timeoutMs, () => {
    late = true;
    limited.abort();
  });
  const first = target.url;
  let { url } = target;
  try {
    for (let redirects = 0; ; redirects += 1) {
      const { status, body, location } = await get({ url, headers: target.headers }, limited.signal);
      if (status >= 300 && status < 400 && location !== undefined) {
        const next = new URL(location, url);
        if (next.hostname !== first.hostname) return warned(terminated(body));
        if (redirects >= maxRedirects) return failed(requestErrorText('GET', next.href, `stopped after ${maxRedirects} redirects`));
        url = next;
        continue;
      }
      if (status >= 300 && status < 400) return warned(terminated(body));
      return status >= 200 && status < 300 ? succeeded(body) : failed(`HTTP probe failed with statuscode: ${status}`);
    }
  } catch (error) {
    signal.throwIfAborted();
    return failed(requestErrorText('GET', url.href, late ? clientTimeout : goErrorText(error)));
  } finally {
    timer.cancel();
    limited.release();
  }
}
