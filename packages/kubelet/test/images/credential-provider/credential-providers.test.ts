import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { serviceAccounts } from '@oarlock/api/resources';
import type { Pod, ServiceAccount } from '@oarlock/api/types/core-v1';
import { jsonLinesLogger } from '@oarlock/primitives/json-lines-logger';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi, type MemoryApi } from '@oarlock/testing/memory-api';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CredentialProviders } from '../../../src/images/credential-provider/credential-providers.ts';

const apiVersion = 'credentialprovider.kubelet.k8s.io/v1';
const image = 'r.example/team/app';
const never = new AbortController().signal;

interface Response {
  readonly kind?: string;
  readonly apiVersion?: string;
  readonly cacheKeyType?: string;
  readonly cacheDuration?: string;
  readonly auth?: Readonly<Record<string, object>> | null;
}
const responseOf = (change: Response = {}): string =>
  JSON.stringify({
    kind: 'CredentialProviderResponse',
    apiVersion,
    cacheKeyType: 'Image',
    auth: { 'r.example': { username: 'user', password: 'pass-word' } },
    ...change,
  });

describe('CredentialProviders', () => {
  let directory: string;
  let clock: FakeClock;
  let api: MemoryApi;
  let logged: string;
  let stop: AbortController;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'oarlock-credential-'));
    await mkdir(join(directory, 'bin'));
    clock = new FakeClock();
    api = memoryApi({ clock });
    logged = '';
    stop = new AbortController();
  });
  afterEach(async () => {
    stop.abort();
    await api.stop();
    await rm(directory, { recursive: true, force: true });
  });

  /** Writes a plugin that records its request and prints a file, or runs other commands. */
  const plugin = async (name: string, { response = responseOf(), commands = '' } = {}) => {
    const file = join(directory, 'bin', name);
    await writeFile(`${file}.response`, response);
    await writeFile(file, `#!/bin/sh\n{ cat; echo; } >> "$0.requests"\n${commands === '' ? 'cat "$0.response"' : commands}\n`);
    await chmod(file, 0o755);
  };
  const requests = async (name = 'plugin') =>
    (await readFile(join(directory, 'bin', `${name}.requests`), 'utf8').catch(() => ''))
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
  const load = async (...changes: readonly object[]) => {
    const defaults = { name: 'plugin', matchImages: ['r.example'], defaultCacheDuration: '1m', apiVersion };
    const providers = changes.map((change) => ({ ...defaults, ...change }));
    const configPath = join(directory, 'config.json');
    await writeFile(configPath, JSON.stringify({ apiVersion: 'kubelet.config.k8s.io/v1', kind: 'CredentialProviderConfig', providers }));
    const log = jsonLinesLogger((line) => void (logged += line));
    const binDir = join(directory, 'bin');
    const environment = { INHERITED: 'yes', CHANGED: 'no', MISSING: undefined };
    const loaded = new CredentialProviders({ configPath, binDir, client: api.client(), clock, log, environment, signal: stop.signal });
    await loaded.load();
    return loaded;
  };
  const pod = (uid = 'u-1', serviceAccountName = ''): Pod => ({
    metadata: { namespace: 'shop', name: `pod-${uid}`, uid },
    spec: { containers: [], ...(serviceAccountName !== '' && { serviceAccountName }) },
  });

  it('passes the repository to each plugin that matches, and returns the credentials in the order of the config', async () => {
    await plugin('plugin', { response: responseOf({ auth: { 'https://r.example/v2/': { username: 'a', password: '1' } } }) });
    await plugin('second', { response: responseOf({ auth: { '*.example/team': { username: 'b', password: '2' } } }) });
    await plugin('third');
    const providers = await load({}, { name: 'second', matchImages: ['x', '*.example'] }, { name: 'third', matchImages: ['other'] });
    expect(await providers.provide(image, pod(), never)).toEqual({
      entries: [
        { pattern: 'r.example', auth: { username: 'a', password: '1' } },
        { pattern: '*.example/team', auth: { username: 'b', password: '2' } },
      ],
      failures: [],
    });
    expect(await requests()).toEqual([{ kind: 'CredentialProviderRequest', apiVersion, image }]);
    expect(await requests('second')).toHaveLength(1);
    expect(await requests('third')).toEqual([]);
  });

  it('runs plugins with the arguments and variables of the config and those of the kubelet', async () => {
    const auth = `{"r.example":{"username":"'$1-$2'","password":"'$INHERITED-$CHANGED'"}}`;
    await plugin('plugin', {
      commands: `echo '{"kind":"CredentialProviderResponse","apiVersion":"${apiVersion}","cacheKeyType":"Image","auth":${auth}}'`,
    });
    const providers = await load({ args: ['a b', '--x'], env: [{ name: 'CHANGED', value: 'set' }] });
    expect((await providers.provide(image, pod(), never)).entries).toEqual([
      { pattern: 'r.example', auth: { username: 'a b---x', password: 'yes-set' } },
    ]);
  });

  it.each(['v1', 'v1beta1', 'v1alpha1'])('speaks version %s', async (version) => {
    const spoken = `credentialprovider.kubelet.k8s.io/${version}`;
    await plugin('plugin', { response: responseOf({ apiVersion: spoken, auth: null }) });
    const providers = await load({ apiVersion: spoken });
    expect(await providers.provide(image, pod(), never)).toEqual({ entries: [], failures: [] });
    expect(await requests()).toEqual([{ kind: 'CredentialProviderRequest', apiVersion: spoken, image }]);
  });

  it.each<[string, readonly number[]]>([
    ['Image', [1, 1, 2, 3]],
    ['Registry', [1, 1, 1, 2]],
    ['Global', [1, 1, 1, 1]],
  ])('caches responses with the cacheKeyType %s', async (cacheKeyType, runs) => {
    await plugin('plugin', { response: responseOf({ cacheKeyType }) });
    const providers = await load({ matchImages: ['*.example'] });
    const counts: number[] = [];
    for (const each of [image, image, 'r.example/other', 's.example/app']) {
      await providers.provide(each, pod(), never);
      counts.push((await requests()).length);
    }
    expect(counts).toEqual(runs);
  });

  it.each<[string, Response, string, number]>([
    ['the default of the config', {}, '1m', 60_000],
    ['the duration of the response', { cacheDuration: '1h' }, '1m', 3_600_000],
    ['no time, if the response demands it', { cacheDuration: '0s' }, '1m', 0],
    ['no time by default', {}, '0s', 0],
  ])('caches responses for %s', async (_, response, defaultCacheDuration, cachedMs) => {
    await plugin('plugin', { response: responseOf(response) });
    const providers = await load({ defaultCacheDuration });
    await providers.provide(image, pod(), never);
    if (cachedMs > 0) {
      await clock.advance(cachedMs - 1);
      await providers.provide(image, pod(), never);
      expect(await requests()).toHaveLength(1);
      await clock.advance(1);
    }
    await providers.provide(image, pod(), never);
    expect(await requests()).toHaveLength(2);
  });

  it('shares one run among concurrent pulls of an image, and repeats a failed one', async () => {
    await plugin('plugin', { response: responseOf({ cacheDuration: '0s' }) });
    const providers = await load({});
    const results = await Promise.all([1, 2, 3].map((each) => providers.provide(image, pod(`u-${each}`), never)));
    expect(results.map(({ entries }) => entries.length)).toEqual([1, 1, 1]);
    expect(await requests()).toHaveLength(1);
    await plugin('plugin', { commands: 'exit 1' });
    expect((await providers.provide(image, pod(), never)).failures).toHaveLength(1);
    await plugin('plugin');
    expect((await providers.provide(image, pod(), never)).failures).toEqual([]);
  });

  it.each<[string, { response?: string; commands?: string }, string]>([
    ['fails', { commands: 'echo pass-word; echo "no pass-word here" >&2; exit 3' }, 'it ended with exit code 3'],
    ['kills itself', { commands: 'kill -9 $$' }, 'it ended with exit code 137'],
    ['prints too much', { commands: 'yes pass-word' }, 'it printed more than 1 MiB'],
    ['prints no JSON', { response: 'pass-word' }, 'its response is not JSON'],
    ['prints null', { response: 'null' }, `the apiVersion of its response must be "${apiVersion}", but is another one`],
    [
      'returns another kind',
      { response: responseOf({ kind: 'pass-word' }) },
      'its response is not a valid CredentialProviderResponse: see kind',
    ],
    [
      'returns another version',
      { response: responseOf({ apiVersion: 'credentialprovider.kubelet.k8s.io/v1beta1' }) },
      `the apiVersion of its response must be "${apiVersion}", but is "credentialprovider.kubelet.k8s.io/v1beta1"`,
    ],
    ['returns no cacheKeyType', { response: responseOf({ cacheKeyType: 'pass-word' }) }, 'see cacheKeyType'],
    ['returns a malformed duration', { response: responseOf({ cacheDuration: 'pass-word' }) }, 'see cacheDuration'],
    ['returns malformed credentials', { response: responseOf({ auth: { 'r.example': { password: ['pass-word'] } } }) }, 'see auth'],
    ['returns unknown fields', { response: responseOf({ 'pass-word': 1 } as Response) }, 'is not a valid CredentialProviderResponse'],
  ])('reports a plugin that %s, without secrets', async (_, options, expected) => {
    await plugin('plugin', options);
    const providers = await load({ env: [{ name: 'PASSWORD', value: 'pass-word' }] });
    const { entries, failures } = await providers.provide(image, pod(), never);
    expect(entries).toEqual([]);
    expect(failures).toEqual([expect.stringContaining(expected)]);
    expect(failures[0]).toMatch(/^credential provider "plugin": /);
    expect(logged).toContain(expected.replaceAll('"', '\\"'));
    expect(`${failures[0]}${logged}`).not.toContain('pass-word');
  });

  it('kills a plugin that does not end within a minute, and when the kubelet stops', async () => {
    await plugin('plugin', { commands: 'echo > "$0.started"; exec sleep 600' });
    const providers = await load({});
    const started = async () => {
      while ((await requests()).length === 0) await new Promise(setImmediate);
      await rm(join(directory, 'bin', 'plugin.requests'));
    };
    const hanging = providers.provide(image, pod(), never);
    await started();
    await clock.advance(60_000);
    expect((await hanging).failures).toEqual(['credential provider "plugin": it did not end within 60000 ms']);
    const pull = new AbortController();
    const shared = providers.provide(image, pod(), never);
    const aborted = providers.provide(image, pod('u-2'), pull.signal);
    await started();
    pull.abort(new Error('the pod is gone'));
    await expect(aborted).rejects.toThrow('the pod is gone');
    stop.abort();
    expect((await shared).failures).toEqual(['credential provider "plugin": it was interrupted']);
  });

  describe('load', () => {
    it('names what is wrong with a program', async () => {
      await expect(load({})).rejects.toThrow(
        `providers[0].name: Invalid value: "plugin": the executable ${join(directory, 'bin', 'plugin')} does not exist`,
      );
      await mkdir(join(directory, 'bin', 'plugin'));
      await expect(load({})).rejects.toThrow('is not a file');
      await plugin('second');
      await chmod(join(directory, 'bin', 'second'), 0o644);
      await expect(load({ name: 'second' })).rejects.toThrow('second is not executable');
      await rm(join(directory, 'bin'), { recursive: true });
      await expect(load({})).rejects.toThrow(/^imageCredentialProviderBinDir: Invalid value: ".*": it is not a directory$/);
    });
  });

  describe('with service account tokens', () => {
    const account = (name: string, annotations: Record<string, string> = {}): ServiceAccount => ({
      apiVersion: 'v1',
      kind: 'ServiceAccount',
      metadata: { namespace: 'shop', name, annotations },
    });
    const attributes = { serviceAccountTokenAudience: 'registry', cacheType: 'ServiceAccount', requireServiceAccount: true };
    const tokenRequests = () => api.requests.filter(({ subresource }) => subresource === 'token').map(({ body }) => body);
    beforeEach(() => {
      api.seed(serviceAccounts, account('a', { 'example.com/role': 'puller', other: 'x' }), account('b'));
    });

    it('passes the token of the pod and the requested annotations', async () => {
      await plugin('plugin');
      const keys = { requiredServiceAccountAnnotationKeys: ['example.com/role'], optionalServiceAccountAnnotationKeys: ['none'] };
      const providers = await load({ tokenAttributes: { ...attributes, ...keys } });
      expect((await providers.provide(image, pod('u-1', 'a'), never)).entries).toHaveLength(1);
      const [request] = await requests();
      expect(request).toEqual({
        kind: 'CredentialProviderRequest',
        apiVersion,
        image,
        serviceAccountToken: expect.stringMatching(/./) as string,
        serviceAccountAnnotations: { 'example.com/role': 'puller' },
      });
      expect(tokenRequests()).toEqual([
        expect.objectContaining({
          metadata: { uid: api.object(serviceAccounts, { namespace: 'shop', name: 'a' })?.metadata?.uid },
          spec: {
            audiences: ['registry'],
            expirationSeconds: 3600,
            boundObjectRef: { apiVersion: 'v1', kind: 'Pod', name: 'pod-u-1', uid: 'u-1' },
          },
        }),
      ]);
    });

    it('does not run the plugin without a required annotation or service account', async () => {
      await plugin('plugin');
      const providers = await load({ tokenAttributes: { ...attributes, requiredServiceAccountAnnotationKeys: ['example.com/role'] } });
      for (const each of [pod('u-1'), pod('u-2', 'b')])
        expect(await providers.provide(image, each, never)).toEqual({ entries: [], failures: [] });
      expect(await requests()).toEqual([]);
      const optional = await load({ tokenAttributes: { ...attributes, requireServiceAccount: false } });
      expect((await optional.provide(image, pod('u-1'), never)).entries).toHaveLength(1);
      expect(await requests()).toEqual([{ kind: 'CredentialProviderRequest', apiVersion, image }]);
    });

    it.each<[string, number]>([
      ['ServiceAccount', 2],
      ['Token', 3],
    ])('caches with the cacheType %s', async (cacheType, runs) => {
      await plugin('plugin', { response: responseOf({ cacheKeyType: 'Global' }) });
      const providers = await load({ tokenAttributes: { ...attributes, cacheType } });
      for (const each of [pod('u-1', 'a'), pod('u-1', 'a'), pod('u-2', 'a'), pod('u-3', 'b')]) await providers.provide(image, each, never);
      expect(await requests()).toHaveLength(runs);
    });

    it('reports a service account that does not exist, and a denied audience', async () => {
      await plugin('plugin');
      const providers = await load({ tokenAttributes: attributes });
      expect((await providers.provide(image, pod('u-1', 'c'), never)).failures).toEqual([
        'credential provider "plugin": reading the service account shop/c failed: it does not exist',
      ]);
      api.failNext({ subresource: 'token' }, new Error('audience "registry" not found in pod spec volume'));
      expect((await providers.provide(image, pod('u-1', 'a'), never)).failures).toEqual([
        expect.stringMatching(
          /^credential provider "plugin": failed to fetch token: .*audience "registry" not found in pod spec volume/,
        ) as string,
      ]);
    });

    it('rejects the token as a password, unless credentials are cached by token', async () => {
      const auth = `{"r.example":{"username":"u","password":"'$token'"}}`;
      const commands = [
        `token=$(sed -n 's/.*"serviceAccountToken":"\\([^"]*\\)".*/\\1/p' "$0.requests")`,
        `echo '{"kind":"CredentialProviderResponse","apiVersion":"${apiVersion}","cacheKeyType":"Image","auth":${auth}}'`,
      ].join('\n');
      await plugin('plugin', { commands });
      const providers = await load({ tokenAttributes: attributes });
      expect((await providers.provide(image, pod('u-1', 'a'), never)).failures).toEqual([
        expect.stringContaining('it returned the service account token') as string,
      ]);
      await rm(join(directory, 'bin', 'plugin.requests'));
      const byToken = await load({ tokenAttributes: { ...attributes, cacheType: 'Token' } });
      expect((await byToken.provide(image, pod('u-1', 'a'), never)).entries).toHaveLength(1);
    });

    it('keeps the token out of the log', async () => {
      await plugin('plugin', { commands: 'cat "$0.requests" >&2; exit 1' });
      const providers = await load({ tokenAttributes: attributes });
      await providers.provide(image, pod('u-1', 'a'), never);
      const [request] = await requests();
      expect(request?.['serviceAccountToken']).toBeTruthy();
      expect(logged).toContain('CredentialProviderRequest');
      expect(logged).not.toContain(request?.['serviceAccountToken']);
    });
  });
});
