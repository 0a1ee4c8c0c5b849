import { execFileSync } from 'node:child_process';
import { systemClock } from '@oarlock/primitives/clock';
import { silentLogger } from '@oarlock/primitives/logger';
import { inNetworkNamespace, ip, isInNetworkNamespace } from '@oarlock/testing/network/network-namespace';
import { describe, expect, it } from 'vitest';
import { calicoConfig } from '../../src/config/calico-config.ts';
import type { BlockAllocator } from '../../src/ipam/block-allocator.ts';
import { RouteManager } from '../../src/routing/route-manager.ts';

if (!isInNetworkNamespace) inNetworkNamespace(import.meta.url);
else
  describe('blackhole routes', () => {
    const node = { nodeName: 'a', podCIDRs: [], clusterCIDRs: ['10.244.0.0/16'], serviceCIDRs: [], nodeIPs: ['192.0.2.1'] };
    const blackholes = () =>
      execFileSync('ip', ['-4', 'route', 'show', 'type', 'blackhole'], { encoding: 'utf8' })
        .trim()
        .split('\n')
        .map((line) => line.replace('blackhole ', '').split(' ')[0])
        .filter((range) => range !== '');

    it('are those of the newest blocks, although an earlier update is still in progress', async () => {
      ip('link', 'set', 'lo', 'up');
      const blocks = { ranges: ['10.244.0.0/30', '10.244.0.4/30'] as readonly string[], borrowed: [] as readonly string[] };
      const manager = new RouteManager({
        config: calicoConfig.parse({ routes: 'none' }),
        allocator: blocks as BlockAllocator,
        peers: undefined,
        informers: undefined,
        dataDir: '/nonexistent',
        clock: systemClock,
        log: silentLogger,
      });
      const configured = manager.configure(node, []);
      await Promise.resolve(); // the first update has read the blocks
      blocks.ranges = ['10.244.0.4/30', '10.244.0.8/30'];
      manager.changed();
      await configured;
      await expect.poll(blackholes).toEqual(blocks.ranges);
      await manager.stop();
      expect(blackholes()).toEqual(blocks.ranges);
    });
  });
