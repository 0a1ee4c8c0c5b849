import { WiringError } from '@oarlock/kernel/errors';
import { describe, expect, it } from 'vitest';
import { describeError } from '../../src/common/command-error.ts';

const describeStartFailure = (path: string, message: string) => describeError(new WiringError([{ code: 'StartFailed', path, message }]));

describe('describeError for a failed start', () => {
  it.each([
    ['spec.settings.apiserver', 'use another port with `--port N`'],
    ['spec.settings.kubelet', '`settings: { kubelet: { port: 0 } }`'],
  ])('adds a remedy for a port in use: %s', (path, remedy) => {
    const { message, exitCode } = describeStartFailure(path, 'it did not start: listen EADDRINUSE: address already in use 127.0.0.1:6443');
    expect(exitCode).toBe(1);
    expect(message).toContain('127.0.0.1:6443');
    expect(message).toContain(remedy);
  });

  it('adds no remedy to other errors', () => {
    expect(describeStartFailure('spec.settings.kubelet', 'kubelet did not start: no room').message).not.toContain('port');
    expect(describeStartFailure('spec.storage', 'listen EADDRINUSE: 127.0.0.1:1').message).not.toContain('--port');
  });
});
