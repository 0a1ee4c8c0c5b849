import { WiringError } from '@oarlock/kernel/errors';
import { describe, expect, it } from 'vitest';
import { CommandError, describeError } from '../../src/common/command-error.ts';

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

  it('adds a remedy for a full disk, also outside of a plugin', () => {
    const full = 'ENOSPC: no space left on device, write';
    expect(describeStartFailure('spec.storage', `storage-embedded did not start: ${full}`).message).toContain('free some space');
    const { message, exitCode } = describeError(Object.assign(new Error(full), { code: 'ENOSPC' }));
    expect(message).toMatch(/^ENOSPC: no space left on device, write; the disk is full: free some space/);
    expect(exitCode).toBe(1);
    expect(describeError(undefined).message).toBe('undefined');
  });

  it('has no control characters, which an answer of a server may contain', () => {
    for (const error of [new Error('a\u001b]0;b\u0007\rc'), new CommandError('a\u001b]0;b\u0007\rc')])
      expect(describeError(error).message).toBe('a\ufffd]0;b\ufffd\ufffdc');
  });

  it('states a failed system call on a file in words', () => {
    const cause = Object.assign(new Error("EROFS: read-only file system, mkdir '/a'"), { code: 'EROFS', syscall: 'mkdir', path: '/a' });
    expect(describeError(cause)).toEqual({ message: '/a cannot be created: the file system is read-only', exitCode: 1 });
  });

  it('adds no remedy to other errors', () => {
    expect(describeStartFailure('spec.settings.kubelet', 'kubelet did not start: no room').message).not.toContain('port');
    expect(describeStartFailure('spec.storage', 'listen EADDRINUSE: 127.0.0.1:1').message).not.toContain('--port');
  });
});
