import { Authn } from '@oarlock/spi/authn';
import { Client } from '@oarlock/spi/client';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { describePlugins, redactConfig } from '../../src/composition/describe-plugins.ts';

describe('redactConfig', () => {
  it('redacts secrets by the name of their field and by their form', () => {
    const config = {
      users: [{ name: 'ada', password: 'x' }],
      tokens: { abc: 'ada' },
      tokenFile: '/etc/tokens.csv',
      apiKey: 'short',
      keySize: 256,
      url: 'https://ada:x@etcd:2379',
      text: 'abcdef.0123456789abcdef',
      passwords: true,
    };
    expect(redactConfig(config)).toEqual({
      users: [{ name: 'ada', password: '<redacted>' }],
      tokens: '<redacted>',
      tokenFile: '/etc/tokens.csv',
      apiKey: '<redacted>',
      keySize: 256,
      url: 'https://<redacted>@etcd:2379',
      text: '<redacted>',
      passwords: true,
    });
  });

  it('is bounded, and leaves out what JSON cannot express', () => {
    const nested: Record<string, unknown> = {};
    nested['self'] = nested;
    expect(JSON.stringify(redactConfig(nested)).length).toBeLessThan(200);
    expect(redactConfig({ a: () => 1, b: 'x'.repeat(5000).replaceAll('xx', 'x ') })).toEqual({ b: expect.stringMatching(/^.{1000}$/) });
  });
});

describe('describePlugins', () => {
  it('lists slots, needs and the config with defaults', () => {
    const plugin = Authn.plugin({
      id: 'authn-test',
      config: z.strictObject({ secret: z.string(), retries: z.number().default(3) }),
      needs: { client: Client },
      create: () => ({ authenticate: () => Promise.reject(new Error('unused')) }),
    });
    expect(describePlugins([{ plugin, name: 'first', config: { secret: 'x' }, path: 'spec.authn.0', segments: [] }])).toEqual([
      { name: 'first', id: 'authn-test', slot: 'authn/v1', needs: ['client/v1'], config: { secret: '<redacted>', retries: 3 } },
    ]);
  });
});
