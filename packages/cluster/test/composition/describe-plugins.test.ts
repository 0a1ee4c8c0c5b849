import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Authn } from '@oarlock/spi/authn';
import { Client } from '@oarlock/spi/client';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { describePlugins } from '../../src/composition/describe-plugins.ts';

describe('describePlugins', () => {
  it('lists slots, needs and the config with defaults', () => {
    const plugin = Authn.plugin({
      id: 'authn-test',
      config: z.strictObject({ secret: z.string(), retries: z.number().default(3) }),
      needs: { client: Client },
      create: () => ({ authenticate: () => Promise.reject(new Error('unused')) }),
    });
    const host = new PluginHost().add({ plugin, name: 'first', config: { secret: 'x' } });
    expect(describePlugins(host.plugins)).toEqual([
      { name: 'first', id: 'authn-test', slot: 'authn/v1', needs: ['client/v1'], config: { secret: '<redacted>', retries: 3 } },
    ]);
  });
});
