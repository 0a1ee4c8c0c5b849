import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readCredentialProviderConfig } from '../../../src/images/credential-provider/credential-provider-config.ts';

const valid = {
  name: 'ecr',
  matchImages: ['*.example'],
  defaultCacheDuration: '12h',
  apiVersion: 'credentialprovider.kubelet.k8s.io/v1',
};
const tokenAttributes = { serviceAccountTokenAudience: 'registry', cacheType: 'Token', requireServiceAccount: true };
const config = (providers: readonly object[], version = 'v1') =>
  JSON.stringify({ apiVersion: `kubelet.config.k8s.io/${version}`, kind: 'CredentialProviderConfig', providers });

describe('readCredentialProviderConfig', () => {
  let directory: string;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'oarlock-credential-'));
  });
  afterEach(() => rm(directory, { recursive: true, force: true }));

  const write = async (text: string, name = 'config.yaml') => {
    const file = join(directory, name);
    await writeFile(file, text);
    return file;
  };
  const rejection = async (text: string) => {
    const file = await write(text);
    const error = (await readCredentialProviderConfig(file).catch((caught: unknown) => caught)) as Error;
    return error.message.replace(`the credential provider config ${file} is invalid: `, '');
  };

  it('reads the example of docs/nodes.md', async () => {
    const page = await readFile(new URL('../../../../../docs/nodes.md', import.meta.url), 'utf8');
    const [, example = ''] = /```yaml\n(# \/etc\/oarlock\/credential-providers.yaml\n[^]*?)```/.exec(page) ?? [];
    const { providers } = await readCredentialProviderConfig(await write(example, 'example.yaml'));
    expect(providers.map(({ name }) => name)).toEqual(['ecr-credential-provider', 'exchange']);
  });

  it('reads YAML and JSON of each version, with defaults', async () => {
    const yaml = [
      'apiVersion: kubelet.config.k8s.io/v1',
      'kind: CredentialProviderConfig',
      'providers:',
      '- name: gcr',
      '  matchImages: ["gcr.io"]',
      '  defaultCacheDuration: 0s',
      '  apiVersion: credentialprovider.kubelet.k8s.io/v1beta1',
      '  args: [get]',
      '  env: [{ name: REGION, value: eu }]',
    ].join('\n');
    expect((await readCredentialProviderConfig(await write(yaml))).providers).toEqual([
      {
        name: 'gcr',
        matchImages: ['gcr.io'],
        defaultCacheDuration: '0s',
        apiVersion: 'credentialprovider.kubelet.k8s.io/v1beta1',
        args: ['get'],
        env: [{ name: 'REGION', value: 'eu' }],
      },
    ]);
    for (const version of ['v1', 'v1beta1', 'v1alpha1']) {
      const text = config([valid], version);
      const length = Buffer.alloc(8);
      length.writeBigUInt64BE(BigInt(text.length));
      expect(await readCredentialProviderConfig(await write(text))).toEqual({
        providers: [{ ...valid, args: [], env: [] }],
        hash: `sha256:${createHash('sha256').update(length).update(text).digest('hex')}`,
      });
    }
  });

  it('reads the files of a directory in the order of their names', async () => {
    await write(config([{ ...valid, name: 'second' }]), '20.json');
    await write(config([{ ...valid, name: 'first' }]), '10.yml');
    await write('no config', 'README');
    await mkdir(join(directory, '30.yaml'));
    expect((await readCredentialProviderConfig(directory)).providers.map(({ name }) => name)).toEqual(['first', 'second']);
    await write(config([{ ...valid, name: 'first' }]), '40.yaml');
    await expect(readCredentialProviderConfig(directory)).rejects.toThrow(
      `the credential provider config ${directory} is invalid: providers[2].name: Duplicate value: "first"`,
    );
  });

  it('names a path without a config', async () => {
    await expect(readCredentialProviderConfig(join(directory, 'missing.yaml'))).rejects.toThrow(/ENOENT.*missing\.yaml/);
    await expect(readCredentialProviderConfig(directory)).rejects.toThrow('is a directory without *.json, *.yaml and *.yml files');
  });

  it.each<[string, object, string]>([
    ['no name', { name: undefined }, 'providers[0].name: Required value'],
    ['a path as name', { name: '../ecr' }, `providers[0].name: Invalid value: "../ecr": provider name cannot contain '/' or '\\'`],
    ['the parent directory', { name: '..' }, `providers[0].name: Invalid value: "..": provider name cannot be '..'`],
    ['a name with spaces', { name: 'a b' }, 'providers[0].name: Invalid value: "a b": provider name cannot contain spaces'],
    ['no images', { matchImages: [] }, 'providers[0].matchImages: Required value: at least 1 item in matchImages is required'],
    ['an invalid pattern', { matchImages: ['a:b'] }, 'providers[0].matchImages[0]: Invalid value: "a:b": match image is invalid'],
    ['no duration', { defaultCacheDuration: undefined }, 'providers[0].defaultCacheDuration: Required value'],
    ['a negative duration', { defaultCacheDuration: '-1s' }, 'providers[0].defaultCacheDuration: Invalid value: "-1s": must be greater'],
    ['no unit', { defaultCacheDuration: '5' }, 'providers[0].defaultCacheDuration: Invalid value: "5": time: missing unit'],
    ['another API version', { apiVersion: 'v1' }, 'providers[0].apiVersion: Unsupported value: "v1": supported values: '],
    ['an unknown key', { matchImage: 'x' }, 'providers[0]: Unrecognized key: "matchImage"'],
    ['an argument that is no text', { args: [1] }, 'providers[0].args[0]: '],
    ['an empty variable', { env: [{ name: '', value: 'hidden' }] }, 'providers[0].env[0].name: Invalid value: ""'],
  ])('rejects %s', async (_, change, expected) => {
    const message = await rejection(config([{ ...valid, ...change }]));
    expect(message).toContain(expected);
    expect(message).not.toContain('hidden');
  });

  it.each<[string, object, string]>([
    ['no audience', { serviceAccountTokenAudience: '' }, 'serviceAccountTokenAudience: Required value'],
    ['no requireServiceAccount', { requireServiceAccount: undefined }, 'requireServiceAccount: Required value'],
    ['no cacheType', { cacheType: undefined }, 'cacheType: Required value: cacheType is required to be set'],
    ['an unknown cacheType', { cacheType: 'Pod' }, 'cacheType: Unsupported value: "Pod": supported values: "ServiceAccount", "Token"'],
    [
      'an invalid key',
      { optionalServiceAccountAnnotationKeys: ['a/b/c'] },
      'optionalServiceAccountAnnotationKeys[0]: Invalid value: "a/b/c"',
    ],
    ['a key twice', { optionalServiceAccountAnnotationKeys: ['a', 'a'] }, 'optionalServiceAccountAnnotationKeys[1]: Duplicate value: "a"'],
    [
      'required keys without a service account',
      { requireServiceAccount: false, requiredServiceAccountAnnotationKeys: ['a'] },
      'requiredServiceAccountAnnotationKeys: Forbidden: requireServiceAccount cannot be false',
    ],
  ])('rejects tokenAttributes with %s', async (_, change, expected) => {
    expect(await rejection(config([{ ...valid, tokenAttributes: { ...tokenAttributes, ...change } }]))).toContain(
      `providers[0].tokenAttributes.${expected}`,
    );
  });

  it('rejects tokenAttributes of older versions, and keys that are required and optional', async () => {
    const older = { ...valid, apiVersion: 'credentialprovider.kubelet.k8s.io/v1beta1', tokenAttributes };
    expect(await rejection(config([older]))).toContain('providers[0].tokenAttributes: Forbidden: tokenAttributes is only supported for');
    expect(await rejection(config([{ ...valid, tokenAttributes }], 'v1beta1'))).toContain('Unrecognized key: "tokenAttributes"');
    const keys = { requiredServiceAccountAnnotationKeys: ['a'], optionalServiceAccountAnnotationKeys: ['a'] };
    expect(await rejection(config([{ ...valid, tokenAttributes: { ...tokenAttributes, ...keys } }]))).toContain(
      'providers[0].tokenAttributes: Invalid value: ["a"]: annotation keys cannot be both required and optional',
    );
  });

  it('rejects files that are no config', async () => {
    expect(await rejection(config([]))).toBe('providers: Required value: at least 1 item in plugins is required');
    expect(await rejection(config([valid], 'v2'))).toMatch(
      /^apiVersion: Unsupported value: "kubelet\.config\.k8s\.io\/v2": supported values: /,
    );
    expect(await rejection(config([valid]).replace('CredentialProviderConfig', 'Other'))).toMatch(/^kind: /);
    expect(await rejection('a: [')).toMatch(/^yaml: /);
    expect(await rejection('kind: a\nkind: b')).toContain('kind');
    await expect(readCredentialProviderConfig(await write(' '.repeat(1024 * 1024 + 1)))).rejects.toThrow('it has more than 1048576 bytes');
  });
});
