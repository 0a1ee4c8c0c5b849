import { describe, expect, it } from 'vitest';
import { formatReference, parseReference } from '@oarlock/oci/reference';

const digest = `sha256:${'a'.repeat(64)}`;

describe('parseReference', () => {
  it.each([
    ['busybox', 'docker.io/library/busybox:latest'],
    ['user/app:1', 'docker.io/user/app:1'],
    ['index.docker.io/busybox', 'docker.io/library/busybox:latest'],
    ['localhost/app', 'localhost/app:latest'],
    ['127.0.0.1:5000/a/b/c:v1.2_x-y', '127.0.0.1:5000/a/b/c:v1.2_x-y'],
    ['[::1]:5000/app', '[::1]:5000/app:latest'],
    [`ghcr.io/org/app@${digest}`, `ghcr.io/org/app@${digest}`],
    [`app:1@${digest}`, `docker.io/library/app:1@${digest}`],
  ])('normalizes %s', (text, expected) => {
    expect(formatReference(parseReference(text))).toBe(expected);
  });

  it.each([
    '',
    'UPPER',
    'a b',
    'app:',
    'app:-x',
    `app@sha256:short`,
    `app@sha512:${'a'.repeat(128)}`,
    'a'.repeat(64),
    `${'a/'.repeat(150)}b`,
    'x/../y',
    'http://x/y',
  ])('rejects %j', (text) => {
    expect(() => parseReference(text)).toThrow(expect.objectContaining({ code: 'InvalidReference' }));
  });
});
