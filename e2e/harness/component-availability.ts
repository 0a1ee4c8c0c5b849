import { existsSync } from 'node:fs';
import { containerdMissing } from '../fixtures/containerd.ts';
import { dockerMissing } from '../fixtures/docker.ts';
import { etcdMissing } from './etcd.ts';

/** Returns why a component is unavailable on this machine, or undefined if it is available. */
export const componentMissing = {
  etcd: etcdMissing,
  containerd: containerdMissing,
  docker: dockerMissing,
  runc: () => (existsSync('/usr/sbin/runc') ? undefined : 'runc is not installed'),
} satisfies Readonly<Record<string, () => string | undefined | Promise<string | undefined>>>;
