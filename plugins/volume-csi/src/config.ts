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
  podInfoOnMount: z.boolean().default(false),
  fsGroupPolicy: z.enum(['ReadWriteOnceWithFSType', 'File', 'None']).default('File'),
});

/** A driver that listens on a socket already. */
const listening = z.strictObject({
  socket: z.string().startsWith('/'),
  /** Make, grow and delete volumes from here, as an external provisioner and resizer beside the driver would. */
  provision: z.boolean().default(false),
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
  csiDriver: csiDriver.prefault({}),
  storageClass: storageClass.optional(),
});

export const volumeCsiConfig = z.strictObject({
  drivers: z
    .array(z.union([listening, run]))
    .min(1)
    .default([
      {
        run: 'csi-hostpath',
        provision: true,
        csiDriver: { attachRequired: false, podInfoOnMount: false, fsGroupPolicy: 'File' },
        storageClass: { name: 'standard', default: true, bindingMode: 'WaitForFirstConsumer', reclaimPolicy: 'Delete' },
      },
    ]),
});
export type VolumeCsiConfig = z.output<typeof volumeCsiConfig>;
export type DriverConfig = VolumeCsiConfig['drivers'][number];
