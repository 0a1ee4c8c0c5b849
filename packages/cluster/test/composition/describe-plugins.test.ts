import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Authn } from '@oarlock/spi/authn';
import { Client, Informers } from '@oarlock/spi/client';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { describePlugins } from '../../src/composition/describe-plugins.ts';
import { withDedicatedInformers } from '../../src/identity/dedicated-informers.ts';

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

  it.each([false, true])('lists the informers that the author declared, where the plugin has its own (remote: %s)', (isRemote) => {
    const plugin = Authn.plugin({
      id: 'authn-test',
      config: z.strictObject({}),
      needs: { informers: Informers, client: Client },
      create: () => ({ authenticate: () => Promise.reject(new Error('unused')) }),
    });
    // `oarlock dev` copies the plugin once more to observe its calls
    const adapted = { ...withDedicatedInformers(plugin, isRemote) };
    expect(describePlugins([{ name: 'first', plugin: adapted, config: {} }])[0]?.needs).toEqual(['informers/v1', 'client/v1']);
  });
});
