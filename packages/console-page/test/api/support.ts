import { ApiClient } from '../../src/api/client.ts';

/** A response of the fake server: a value as JSON, watch events that end, or an error. */
export type FakeResponse =
  | { readonly json: unknown; readonly status?: number }
  | { readonly lines: readonly unknown[]; readonly tail?: string }
  | { readonly fails: string };

export interface FakeRequest {
  readonly url: string;
  readonly init: RequestInit;
}

/** A client whose requests receive the given responses in order; the last request does not end until it is aborted. */
export function fakeClient(responses: readonly FakeResponse[]): { readonly client: ApiClient; readonly requests: FakeRequest[] } {
  const requests: FakeRequest[] = [];
  const client = new ApiClient(
    (url, init) => {
      const response = responses[requests.length];
      requests.push({ url, init });
      if (response === undefined)
        return new Promise((_, reject) => {
          init.signal?.addEventListener('abort', () => reject(new Error('aborted')));
        });
      if ('fails' in response) return Promise.reject(new TypeError(response.fails));
      if ('json' in response) return Promise.resolve(Response.json(response.json, { status: response.status ?? 200 }));
      return Promise.resolve(new Response(response.lines.map((line) => `${JSON.stringify(line)}\n`).join('') + (response.tail ?? '')));
    },
    () => 'key',
  );
  return { client, requests };
}

/** Returns the query parameters of a request. */
export const queryOf = ({ url }: FakeRequest): Readonly<Record<string, string>> =>
  Object.fromEntries(new URL(url, 'https://cluster').searchParams);
