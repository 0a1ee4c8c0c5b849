import { applyDefaultImageTag, defaultPullPolicy, repositoryOf, withDefaultRegistry } from '@oarlock/api/component-helpers/image-reference';
import { describe, expect, it } from 'vitest';

const digest = `sha256:${'a'.repeat(64)}`;

describe('image reference', () => {
  it.each([
    ['nginx', 'nginx:latest', 'docker.io/library/nginx', 'Always'],
    ['nginx:latest', 'nginx:latest', 'docker.io/library/nginx', 'Always'],
    ['nginx:1', 'nginx:1', 'docker.io/library/nginx', 'IfNotPresent'],
    ['team/app', 'team/app:latest', 'docker.io/team/app', 'Always'],
    ['localhost:5000/a/b', 'localhost:5000/a/b:latest', 'localhost:5000/a/b', 'Always'],
    ['localhost/a', 'localhost/a:latest', 'localhost/a', 'Always'],
    ['a.example/b:2', 'a.example/b:2', 'a.example/b', 'IfNotPresent'],
    [`a.example/b@${digest}`, `a.example/b@${digest}`, 'a.example/b', 'IfNotPresent'],
    [`a.example:5000/b:latest@${digest}`, `a.example:5000/b:latest@${digest}`, 'a.example:5000/b', 'Always'],
  ])('%s has tag, repository and pull policy', (image, tagged, repository, policy) => {
    expect([applyDefaultImageTag(image), repositoryOf(image), defaultPullPolicy(image)]).toEqual([tagged, repository, policy]);
  });

  it('keeps tag and digest when the registry is added', () => {
    expect(withDefaultRegistry(`nginx:1@${digest}`)).toBe(`docker.io/library/nginx:1@${digest}`);
  });

  it.each(['ko://github.com/acme/app', 'Upper/Case', 'a b', `${'a'.repeat(64)}`, 'a'.repeat(300), 'x:', '/x', 'x@sha256:abc'])(
    'has no tag if it is invalid, as upstream: %s',
    (image) => expect(defaultPullPolicy(image)).toBe('IfNotPresent'),
  );

  it.each(['localhost/x', 'Host.example/x', '[::1]:5000/x', 'a__b/c-d.e', 'HOST/x'])('is pulled always without a tag: %s', (image) =>
    expect(defaultPullPolicy(image)).toBe('Always'),
  );

  it('is not pulled by default if it is empty', () => expect(defaultPullPolicy('')).toBe('IfNotPresent'));

  it.each(['', 'a b', '-x', 'nginx:', 'nginx@sha256:1', 'x'.repeat(5000)])('rejects %j', (image) => {
    expect(() => applyDefaultImageTag(image)).toThrow(/couldn't parse image name/);
  });

  const hexadecimal = 'a'.repeat(64);
  it.each([
    ['UPPER', 'invalid reference format: repository name (library/UPPER) must be lowercase'],
    ['host.example/Team/app:1', 'invalid reference format: repository name (Team/app) must be lowercase'],
    ['Team/app/Web', 'invalid reference format: repository name (app/Web) must be lowercase'],
    ['Task  app:1', 'invalid reference format: repository name (library/Task  app) must be lowercase'],
    ['a b', 'invalid reference format'],
    ['nginx:', 'invalid reference format'],
    ['https://host.example/app', 'invalid reference format'],
    [`${'a/'.repeat(130)}b`, 'repository name must not be more than 255 characters'],
    [hexadecimal, `invalid repository name (${hexadecimal}), cannot specify 64-byte hexadecimal strings`],
    [`nginx@sha1:${hexadecimal}`, 'unsupported digest algorithm'],
    [`nginx@sha256:${'a'.repeat(63)}`, 'invalid checksum digest length'],
    [`nginx@sha256:${'A'.repeat(64)}`, 'invalid checksum digest format'],
  ])('rejects %s in the words of upstream', (image, problem) => {
    expect(() => applyDefaultImageTag(image)).toThrow(new Error(`couldn't parse image name "${image}": ${problem}`));
  });
});
