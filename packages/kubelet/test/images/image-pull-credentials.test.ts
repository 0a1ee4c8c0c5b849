import type { Secret } from '@oarlock/api/types/core-v1';
import { describe, expect, it } from 'vitest';
import { repositoryWithRegistry } from '../../src/images/keyring/docker-keyring.ts';
import { credentialsFor } from '../../src/images/image-pull-credentials.ts';

describe('credentialsFor', () => {
  const secret = (auths: object): Secret => ({
    data: { '.dockerconfigjson': Buffer.from(JSON.stringify({ auths })).toString('base64') },
  });
  const secrets = [
    secret({
      'https://index.docker.io/v1/': { auth: Buffer.from('hub:p:w').toString('base64') },
      'r.example': { username: 'all', password: 'x' },
      'r.example/team': { username: 'team', password: 'y' },
      '*.cloud.example': { username: 'any', password: 'z' },
      'https://eu.cloud.example/v2/': { username: 'europe', password: 'e' },
    }),
    secret({ 'r.example/team': { username: 'second', password: 's' } }),
  ];
  const found = (image: string) => credentialsFor(repositoryWithRegistry(image), secrets);
  const users = (image: string) => found(image).map(({ auth: { username, password } }) => `${username}:${password}`);

  it('are found by host and path, most specific first', () => {
    expect(users('nginx')).toEqual(['hub:p:w']);
    expect(users('index.docker.io/library/nginx@sha256:00')).toEqual(['hub:p:w']);
    expect(users('r.example/team/app:1')).toEqual(['team:y', 'second:s', 'all:x']);
    expect(users('r.example/other')).toEqual(['all:x']);
    expect(users('eu.cloud.example/app')).toEqual(['europe:e', 'any:z']);
    expect(users('a.b.cloud.example/app')).toEqual([]);
    expect(users('evil.example/r.example/team')).toEqual([]);
  });

  it('name the registry of the image, also if their key is a pattern', () => {
    expect(found('eu.cloud.example/app').map(({ auth }) => auth.serverAddress)).toEqual(['eu.cloud.example', 'eu.cloud.example']);
    expect(found('nginx').map(({ auth }) => auth.serverAddress)).toEqual(['docker.io']);
  });

  it('does not quote a malformed pull secret, which readers of events may not read', () => {
    for (const [key, text] of [
      ['.dockerconfigjson', 'marker'],
      ['.dockercfg', '"marker"'],
    ] as const) {
      const broken = { metadata: { namespace: 'd', name: 'pull' }, data: { [key]: Buffer.from(text).toString('base64') } };
      expect(() => credentialsFor('docker.io/library/nginx', [broken])).toThrow(/^the pull secret d\/pull contains no JSON object$/);
    }
    expect(credentialsFor('r.example/app', [secret({ 'r.example': null })])).toEqual([]);
  });
});
