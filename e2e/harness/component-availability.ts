import { containerdMissing } from '../fixtures/containerd.ts';
import { dockerMissing } from '../fixtures/docker.ts';
import { etcdMissing } from './etcd.ts';

/** Why a component cannot be had here; undefined: it can. */
export const componentMissing = {
  etcd: etcdMissing,
  containerd: containerdMissing,
  docker: dockerMissing,
} satisfies Readonly<Record<string, () => string | undefined | Promise<string | undefined>>>;
