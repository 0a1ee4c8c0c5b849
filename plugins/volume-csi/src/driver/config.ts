import { z } from 'zod';

const storageClass = z.strictObject({
  name: z.string().min(1),
  /** True if PersistentVolumeClaims without a class get this StorageClass. */
  default: z.boolean().default(true),
  bindingMode: z.enum(['WaitForFirstConsumer', 'Immediate']).default('WaitForFirstConsumer'),
  reclaimPolicy: z.enum(['Delete', 'Retain']).default('Delete'),
  /** Default: whether the driver can expand volumes; false if the class is created before the driver has answered. */
  allowVolumeExpansion: z.boolean().optional(),
});

const csiDriver = z.strictObject({
  attachRequired: z.boolean().default(false),
  /** CSIDriver.podInfoOnMount, which inline volumes require: drivers recognize inline volumes by the pod information. */
  podInfoOnMount: z.boolean().default(true),
  fsGroupPolicy: z.enum(['ReadWriteOnceWithFSType', 'File', 'None']).default('File'),
  /** True if pods are scheduled only to nodes for which the driver reports enough capacity. The driver then starts with the plugin. */
  storageCapacity: z.boolean().default(false),
  requiresRepublish: z.boolean().default(false),
  seLinuxMount: z.boolean().default(false),
  volumeLifecycleModes: z
    .array(z.enum(['Persistent', 'Ephemeral']))
    .min(1)
    .default(['Persistent', 'Ephemeral']),
  tokenRequests: z.array(z.strictObject({ audience: z.string(), expirationSeconds: z.number().int().min(600).optional() })).default([]),
});
/** True if the driver's controller service serves the volumes of all nodes; false if each node has its own controller service. */
const central = z.boolean().default(false);

/** The name of the driver: a control plane without the driver then creates its CSIDriver and StorageClass, which nodes may not create. */
const name = z.string().min(1).max(63).optional();

/** A CSI driver that already listens on a socket. */
const listening = z.strictObject({
  socket: z.string().startsWith('/'),
  name,
  /** True to create, expand and delete volumes, as external-provisioner and external-resizer do. */
  provision: z.boolean().default(false),
  central,
  csiDriver: csiDriver.optional(),
  storageClass: storageClass.optional(),
});

/** The name of the CSI driver csi-hostpath. */
export const ownName = 'hostpath.csi.oarlock.dev';

/** A CSI driver process that the plugin starts, and restarts when it exits. */
const run = z.strictObject({
  /** `csi-hostpath`, or a command that accepts `--endpoint`, `--node-id` and `--data-dir`. */
  run: z.union([z.literal('csi-hostpath'), z.array(z.string()).min(1)]),
  name,
  provision: z.boolean().default(true),
  central,
  csiDriver: csiDriver.prefault({}),
  storageClass: storageClass.optional(),
});

export const volumeCsiConfig = z.strictObject({
  /**
   * The kubelet directory (upstream: /var/lib/kubelet). CSI drivers register with a socket in its `plugins_registry`, and volumes are staged in its
   * `plugins/kubernetes.io/csi`. By default, no driver can register.
   */
  kubeletDir: z.string().startsWith('/').max(60).optional(),
  /**
   * The registered drivers for which the plugin attaches, provisions, expands and snapshots volumes while no sidecar holds the lease for that work;
   * `*` for all drivers.
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

/** Returns the name of the driver if it is known before the driver answers. */
export const knownName = (config: DriverConfig): string | undefined => (isOwn(config) ? ownName : config.name);

/** Returns true if the driver is csi-hostpath with provisioning. */
export const isOwn = (config: DriverConfig): boolean => 'run' in config && config.run === 'csi-hostpath' && config.provision;
