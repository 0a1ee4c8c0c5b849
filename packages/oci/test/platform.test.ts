import { describe, expect, it } from 'vitest';
import { parsePlatform, selectPlatform, type Platform } from '@oarlock/oci/platform';

const candidates = (...platforms: readonly string[]) => platforms.map((name) => ({ name, platform: parsePlatform(name) as Platform }));
const select = (wanted: string, ...platforms: readonly string[]) =>
  selectPlatform(candidates(...platforms), parsePlatform(wanted) as Platform)?.name;

describe('selectPlatform', () => {
  it.each<[string, readonly string[], string | undefined]>([
    ['linux/amd64', ['linux/arm64', 'linux/amd64'], 'linux/amd64'],
    ['linux/amd64', ['windows/amd64', 'linux/arm64'], undefined],
    ['linux/arm/v7', ['linux/arm/v5', 'linux/arm/v6'], 'linux/arm/v6'],
    ['linux/arm/v7', ['linux/arm'], 'linux/arm'],
    ['linux/arm/v6', ['linux/arm/v7'], undefined],
    ['linux/arm64', ['linux/arm/v7', 'linux/arm64/v8'], 'linux/arm64/v8'],
    ['linux/arm64', ['linux/arm/v7'], 'linux/arm/v7'],
    ['linux/aarch64', ['linux/arm64'], 'linux/arm64'],
    ['linux/amd64/v3', ['linux/amd64', 'linux/amd64/v2', 'linux/amd64/v4'], 'linux/amd64/v2'],
    ['linux/amd64', ['linux/amd64/v2'], undefined],
  ])('for %s selects of %j: %s', (wanted, available, expected) => {
    expect(select(wanted, ...available)).toBe(expected);
  });

  it('ignores candidates without a platform, such as attestations', () => {
    expect(selectPlatform([{}, ...candidates('linux/amd64')], { os: 'linux', architecture: 'amd64' })).toMatchObject({
      name: 'linux/amd64',
    });
  });
});
