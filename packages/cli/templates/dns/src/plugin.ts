import { Cluster } from '@oarlock/spi/cluster';
import { Dns } from '@oarlock/spi/dns';
import { z } from 'zod';
import { __Class__ } from './dns-server.ts';

export default Dns.plugin({
  id: '__ID__',
  config: z.strictObject({
    address: z.union([z.ipv4(), z.ipv6()]).default('127.0.0.1'),
    port: z.int().min(0).max(65_535).default(53),
  }),
  needs: { cluster: Cluster },
  create: ({ config, cluster }) => new __Class__({ ...config, clusterDomain: cluster.domain }),
});
