import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { inspect } from 'node:util';
import type { Logger } from '@oarlock/primitives/logger';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { scriptedRegistry, type ScriptedRegistry } from '../fixtures/scripted-registry.ts';
import { temporaryStore, type TemporaryStore } from '../fixtures/temporary-store.ts';

const marker = 'marker-4711';
const encoded = Buffer.from(`user:${marker}`).toString('base64');

describe('a pull that fails', () => {
  let directory: string;
  let registry: ScriptedRegistry;
  let store: TemporaryStore | undefined;
  let logged: string[];
  const file = async (name: string, text: string) => {
    await mkdir(dirname(join(directory, name)), { recursive: true });
    await writeFile(join(directory, name), text);
    return join(directory, name);
  };
  const hosts = (text: string) => file(`hosts/${registry.host}/hosts.toml`, text);
  /** Pulls an image and returns all that a user or a log could show of the failure. */
  const failureOf = async (proxy = {}, reference = `${registry.host}/app:1`): Promise<string> => {
    const record = (...entry: readonly unknown[]) => void logged.push(inspect(entry, { depth: 10 }));
    const log = { debug: record, info: record, warn: record, error: record, child: () => log } as unknown as Logger;
    store = await temporaryStore({
      log,
      hostsDirectory: join(directory, 'hosts'),
      dockerConfig: join(directory, 'config.json'),
      helperPath: join(directory, 'helpers'),
      proxy,
    });
    const error: unknown = await store.images.pull({ reference }).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(Error);
    return `${inspect(error, { depth: 10 })}\n${JSON.stringify(error)}\n${logged.join('\n')}`;
  };

  beforeEach(async () => {
    logged = [];
    directory = await mkdtemp(join(tmpdir(), 'oarlock-secrets-'));
    registry = await scriptedRegistry();
  });
  afterEach(async () => {
    await store?.remove();
    store = undefined;
    await registry.stop();
    await rm(directory, { recursive: true, force: true });
  });

  it.each([
    [
      'an unknown capability',
      `[host."http://127.0.0.1:1"]\ncapabilities = ["${'push-it'}"]\n[host."http://127.0.0.1:1".header]\nAuthorization = "${marker}"\n`,
    ],
    ['a line that is not TOML', `[host."http://127.0.0.1:1".header]\nAuthorization = "Bearer ${marker}\n`],
    ['a password in the URL of a mirror', `[host."https://user:${marker}@127.0.0.1:1"]\nskip_verify = true\n`],
    ['a password in the URL of a malformed mirror', `[host."https://user:${marker}@127.0.0.1:1"]\nskip_verify = "yes"\n`],
    ['a password in a server that is no URL', `server = "ftp://user:${marker}@127.0.0.1:1"\n`],
    [
      'a mirror that does not answer',
      `[host."http://127.0.0.1:1"]\n[host."http://127.0.0.1:1".header]\nAuthorization = "Bearer ${marker}"\n`,
    ],
  ])('does not show secrets of a hosts.toml with %s', async (_, text) => {
    await hosts(text);
    expect(await failureOf()).not.toContain(marker);
  });

  it.each([
    ['malformed JSON', `{"auths":{"HOST":{"auth":"${marker}`],
    ['malformed base64', `{"auths":{"HOST":{"auth":"${marker}"}}}`],
    ['a password that the registry rejects', `{"auths":{"HOST":{"auth":"${encoded}"}}}`],
    ['an access token that the registry rejects', `{"auths":{"HOST":{"registrytoken":"${marker}"}}}`],
    ['a helper that does not exist', `{"credHelpers":{"HOST":"missing"},"auths":{"HOST":{"auth":"${encoded}"}}}`],
  ])("does not show secrets of docker's config.json with %s", async (_, text) => {
    await file('config.json', text.replaceAll('HOST', registry.host));
    registry.intercept = (_request, response) => {
      response.writeHead(401, { 'www-authenticate': 'Basic realm="test"' }).end('{"errors":[{"code":"UNAUTHORIZED","message":"denied"}]}');
      return true;
    };
    const output = await failureOf();
    for (const secret of [marker, encoded]) expect(output).not.toContain(secret);
  });

  it.each([
    ['does not answer', `http://user:${marker}@127.0.0.1:1`],
    ['is not a URL', `http://user:${marker}@[proxy`],
  ])('does not show the password of a proxy that %s', async (_, setting) => {
    for (const scheme of ['http', 'https']) {
      await file('hosts/registry.invalid/hosts.toml', `server = "${scheme}://registry.invalid"\n`);
      const output = await failureOf({ httpProxy: setting, httpsProxy: setting }, 'registry.invalid/app:1');
      for (const secret of [marker, encoded]) expect(output).not.toContain(secret);
      await store?.remove();
      store = undefined;
    }
  });
});
