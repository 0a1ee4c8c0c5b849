import { WiringError } from '@oarlock/kernel/errors';
import { describe, expect, it } from 'vitest';
import { explain } from '../src/exit.ts';

const refused = (path: string, message: string) => explain(new WiringError([{ code: 'StartFailed', path, message }]));

describe('what is told of a start that failed', () => {
  it.each([
    ['spec.settings.apiserver', '`--port N` takes another port'],
    ['spec.settings.kubelet', '`settings: { kubelet: { port: 0 } }`'],
  ])('says what to do about a port that is taken: %s', (path, remedy) => {
    const { message, exitCode } = refused(path, 'it did not start: listen EADDRINUSE: address already in use 127.0.0.1:6443');
    expect(exitCode).toBe(1);
    expect(message).toContain('127.0.0.1:6443');
    expect(message).toContain(remedy);
  });

  it('says no more of what it does not know', () => {
    expect(refused('spec.settings.kubelet', 'kubelet did not start: no room').message).not.toContain('port');
    expect(refused('spec.storage', 'listen EADDRINUSE: 127.0.0.1:1').message).not.toContain('--port');
  });
});
