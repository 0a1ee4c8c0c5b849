import { optional } from '@oarlock/kernel/slot';
import { Client, Events, Informers } from '@oarlock/spi/client';
import { Cluster, Keys } from '@oarlock/spi/cluster';
import { LocalNodes } from '@oarlock/spi/local-nodes';
import { Process } from '@oarlock/spi/process';
import { Network } from '@oarlock/spi/network';
import { Policy } from '@oarlock/spi/policy';
import { Roles } from '@oarlock/spi/role';
import { Runtime } from '@oarlock/spi/runtime';
import { Volumes } from '@oarlock/spi/volume';
import { kubeletConfig } from './config/kubelet-config.ts';
import { KubeletRole } from './kubelet-role.ts';

export default Roles.plugin({
  id: 'kubelet',
  config: kubeletConfig,
  needs: {
    client: Client,
    informers: Informers,
    events: Events,
    runtimes: Runtime,
    network: optional(Network),
    policy: optional(Policy),
    volumes: Volumes,
    facts: Cluster,
    keys: Keys,
    local: optional(LocalNodes),
    process: optional(Process),
  },
  create: (dependencies, context) => new KubeletRole(dependencies, context),
});
