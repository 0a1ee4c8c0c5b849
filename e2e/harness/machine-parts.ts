import { containerdMissing } from '../fixtures/containerd.ts';
import { etcdMissing } from './etcd.ts';

/** Why a component cannot be had here; undefined: it can. */
export const missing: { readonly etcd: () => string | undefined; readonly containerd: () => Promise<string | undefined> } = {
  etcd: etcdMissing,
  containerd: containerdMissing,
};
