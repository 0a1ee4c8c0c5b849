import { z } from 'zod';

const storageClass = z.strictObject({
  name: z.string().min(1),
  /** Claims that name no class get this one. */
  default: z.boolean().default(true),
  bindingMode: z.enum(['WaitForFirstConsumer', 'Immediate']).default('WaitForFirstConsumer'),
  reclaimPolicy: z.enum(['Delete', 'Retain']).default('Delete'),
});

const csiDriver = z.strictObject({
  attachRequired: z.boolean().default(false),
  /** Needed for volumes in pods' own specs: a driver knows them by it. */
  podInfoOnMount: z.boolean().default(true),
  fsGroupPolicy: z.enum(['ReadWriteOnceWithFSType', 'File', 'None']).default('File'),
  /** Whether pods go only where the driver says that there is room. Then it is asked for it, and runs from the start. */
  storageCapacity: z.boolean().default(false),
  requiresRepublish: z.boolean().default(false),
  volumeLifecycleModes: z
    .array(z.enum(['Persistent', 'Ephemeral']))
    .min(1)
    .default(['Persistent', 'Ephemeral']),
  tokenRequests: z.array(z.strictObject({ audience: z.string(), expirationSeconds: z.number().int().min(600).optional() })).default([]),
});
/** The driver's controller serves volumes of all nodes, and not only of the one that it runs on. */
const central = z.boolean().default(false);

/** A driver that listens on a socket already. */
const listening = z.strictObject({
  socket: z.string().startsWith('/'),
  /** Make, grow and delete volumes from here, as an external provisioner and resizer beside the driver would. */
  provision: z.boolean().default(false),
  central,
  csiDriver: csiDriver.optional(),
  storageClass: storageClass.optional(),
});

/** What csi-hostpath calls itself. */
export const ownName = 'hostpath.csi.oarlock.dev';

/** A driver that is run from here, and again when it ends. */
const run = z.strictObject({
  /** `csi-hostpath`, or a command that takes `--endpoint`, `--node-id` and `--data-dir`. */
  run: z.union([z.literal('csi-hostpath'), z.array(z.string()).min(1)]),
  provision: z.boolean().default(true),
  central,
  csiDriver: csiDriver.prefault({}),
  storageClass: storageClass.optional(),
});

export const volumeCsiConfig = z.strictObject({
  /**
   * Upstream's /var/lib/kubelet: drivers register with a socket in `plugins_registry` below it, and have their volumes staged in
   * `plugins/kubernetes.io/csi`. By default no driver can register.
   */
  kubeletDir: z.string().startsWith('/').max(60).optional(),
  /**
   * Drivers that register, for which attaching, making, growing and snapshots are done from here, as far as no sidecar beside them leads for
   * that; `*`: all.
   */
  provisionFor: z.array(z.string().min(1)).default([]),
  drivers: z.array(z.union([listening, run])).default([
    {
      run: 'csi-hostpath',
      provision: true,
      central: false,
      csiDriver: csiDriver.parse({}),
      storageClass: { name: 'standard', default: true, bindingMode: 'WaitForFirstConsumer', reclaimPolicy: 'Delete' },
    },
  ]),
});
export type VolumeCsiConfig = z.output<typeof volumeCsiConfig>;
export type DriverConfig = VolumeCsiConfig['drivers'][number];

/** Our own, which is to make volumes for claims. */
export const isOwn = (config: DriverConfig): boolean => 'run' in config && config.run === 'csi-hostpath' && config.provision;
