import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Dns } from '@oarlock/spi/dns';
import { config, orMisbehave } from './faults.ts';

/** Writes the names that it has applied to a file, and serves none. */
export default Dns.plugin({
  id: 'dns-faulty',
  config,
  create({ config: settings }) {
    const applied = new Set<string>();
    return {
      address: '127.0.0.1',
      port: 0,
      clusterDomain: 'cluster.local',
      apply: ({ replace, set, removed }) =>
        orMisbehave(settings, async () => {
          if (replace) applied.clear();
          for (const { name } of set) applied.add(name);
          for (const name of removed) applied.delete(name);
          await writeFile(join(settings.switches, `${settings.name}-applied`), [...applied].join('\n'));
        }),
    };
  },
});
