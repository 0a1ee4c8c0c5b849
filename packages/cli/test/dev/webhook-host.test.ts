import { configMaps } from '@oarlock/api/resources';
import { admissionRequest } from '@oarlock/spi/admission/contract';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { describe, expect, it } from 'vitest';
import { colorsFor } from '../../src/dev/terminal-colors.ts';
import { answerMs, requestLine, withDeadline } from '../../src/dev/webhook-host.ts';

const plain = colorsFor(false);

describe('the line of a request', () => {
  it('names the object and the user', () => {
    const request = admissionRequest('CREATE', configMaps, { metadata: { namespace: 'team', name: 'a' } });
    expect(requestLine({ ...request, identity: { name: 'ada', groups: [] } }, plain)).toBe('CREATE configmaps team/a by ada');
  });

  it('is one line, also with names that contain line breaks', () => {
    const name = 'a by ada\nCREATE secrets kube-system/b';
    const request = admissionRequest('CREATE', configMaps, { metadata: { namespace: 'team', name } });
    const line = requestLine({ ...request, identity: { name: 'eve\r\n\u001b[2J', groups: [] } }, plain);
    expect(line).toContain('CREATE secrets kube-system/b');
    for (const control of ['\n', '\r', '\u001b']) expect(line).not.toContain(control);
  });
});

describe('the answer of a plugin', () => {
  it('fails before the API server shows the URL of the webhook to its caller', async () => {
    const clock = new FakeClock();
    const failed = expect(withDeadline(() => new Promise(() => {}), clock)({})).rejects.toThrow('the plugin did not answer within 4 s');
    await clock.advance(answerMs);
    await failed;
  });

  it('is passed on, and so is its failure', async () => {
    const clock = new FakeClock();
    expect(await withDeadline(() => Promise.resolve({ allowed: true }), clock)({})).toEqual({ allowed: true });
    await expect(withDeadline(() => Promise.reject(new Error('failed')), clock)({})).rejects.toThrow('failed');
  });
});
