import { describe, expect, it } from 'vitest';
import { connectionLimits, defaultConnectionConfig, readOpenFilesLimit, withinOpenFiles } from '../../src/http/connection-limits.ts';
import apiserver from '../../src/plugin.ts';

describe('the connection limits', () => {
  it('have the defaults of kube-apiserver', () => {
    expect(apiserver.config.parse({})).toMatchObject({ connections: defaultConnectionConfig });
    expect(connectionLimits(defaultConnectionConfig, 60_000)).toMatchObject({
      handshakeTimeoutMs: 32_000,
      headerTimeoutMs: 32_000,
      idleTimeoutMs: 90_000,
      responseTimeoutMs: 60_000,
    });
  });

  it('leave a quarter of the file descriptors of the process to storage, logs and programs', async () => {
    expect(withinOpenFiles(defaultConnectionConfig, 1_000_000)).toEqual(defaultConnectionConfig);
    expect(withinOpenFiles(defaultConnectionConfig, undefined)).toEqual(defaultConnectionConfig);
    expect(withinOpenFiles(defaultConnectionConfig, 1024)).toEqual({ ...defaultConnectionConfig, max: 768, reserved: 192 });
    if (process.platform === 'linux') expect(await readOpenFilesLimit()).toBeGreaterThan(0);
  });

  it.each([
    ['a reserve that is not less than the total', { max: 10, reserved: 10 }],
    ['a handshake timeout beyond that of Node.js', { handshakeTimeoutSeconds: 121 }],
    ['no idle timeout', { idleTimeoutSeconds: 0 }],
    ['an unknown key', { maximum: 10 }],
  ])('cannot have %s', (_, connections) => {
    expect(apiserver.config.safeParse({ connections }).success).toBe(false);
    expect(apiserver.config.safeParse({ connections: { max: 10, reserved: 9 } }).success).toBe(true);
  });
});
