import { readFileSync } from 'node:fs';
import { parseExact, stringifyExact } from '@oarlock/api/json/exact-json';
import { isObject } from '@oarlock/api/json/json';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { TestServer } from '../support/pipeline-fixture.ts';
import { startServer } from '../support/start-server.ts';
import { untilCondition } from '../support/custom-resource-definitions.ts';

interface Step {
  readonly about: string;
  readonly method: string;
  readonly path: string;
  readonly type?: string;
  readonly body?: string;
  readonly accept?: string;
  readonly code: number;
  readonly warnings?: readonly string[];
  readonly answer: unknown;
}

/** The responses of upstream's apiextensions API server 0.36 to a sequence of requests, without values that differ on each run. */
const steps = parseExact(readFileSync(new URL('upstream-answers.json', import.meta.url), 'utf8')) as readonly Step[];
const name = 'things.upstream.example.com';

const always: Readonly<Record<string, string>> = { uid: 'UID', resourceVersion: 'REVISION', creationTimestamp: 'TIME', time: 'TIME' };

/** Returns the value without members that differ on each run. */
function lasting(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(lasting);
  if (isObject(value))
    return Object.fromEntries(
      Object.entries(value).map(([key, member]) => [
        key,
        typeof member === 'string' && member !== '' && Object.hasOwn(always, key) ? always[key] : lasting(member),
      ]),
    );
  if (typeof value !== 'string') return value;
  return value
    .replaceAll(/[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}/g, 'UID')
    .replaceAll(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/g, 'TIME')
    .replaceAll(/(resourceVersion(?:\\?"|): ?\\?")\d+/g, '$1REVISION');
}

const bodyOf = (text: string): unknown => {
  try {
    return parseExact(text);
  } catch {
    return text; // YAML and invalid documents
  }
};

describe("responses of upstream's server", () => {
  let api: TestServer;
  let server: Awaited<ReturnType<typeof startServer<TestServer['pipeline']>>>;
  beforeAll(async () => {
    api = await TestServer.start();
    server = await startServer({}, api.pipeline);
  });
  afterAll(async () => {
    await server.stop();
    await api.stop();
  });

  // each step depends on the state that the previous step left
  for (const [i, { about, method, path, type, body, accept = 'application/json', code, warnings, answer }] of steps.entries()) {
    it(`${i} ${about}: ${method} ${path.slice(path.lastIndexOf('/'))} ${(body ?? '').slice(0, 60)}`, async () => {
      const headers = { accept, ...(type !== undefined && { 'content-type': type }) };
      const response = await server.http1(method, path, { headers, ...(body !== undefined && { body }) });
      const receivedWarnings = ((response.headers['warning'] as string | undefined) ?? '')
        .split(/, (?=299 - )/)
        .filter((warning) => warning !== '');
      expect({ code: response.code, warnings: receivedWarnings, answer: lasting(bodyOf(response.text)) }).toEqual({
        code,
        warnings: warnings ?? [],
        answer,
      });
      if (i === 0) await untilCondition(api, name, 'Established', 'True');
      if (typeof answer === 'string') return;
      // jsonEqual alone would accept equal-looking values
      expect(stringifyExact(lasting(bodyOf(response.text))).length).toBe(stringifyExact(answer).length);
    });
  }
});
