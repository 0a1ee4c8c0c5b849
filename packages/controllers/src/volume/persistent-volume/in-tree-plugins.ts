import type { PersistentVolume } from '@oarlock/api/types/core-v1';

/** In-tree provisioners, and the CSI drivers that replace them, which provision like other external provisioners. */
const migrated: ReadonlyMap<string, string> = new Map([
  ['kubernetes.io/aws-ebs', 'ebs.csi.aws.com'],
  ['kubernetes.io/azure-disk', 'disk.csi.azure.com'],
  ['kubernetes.io/azure-file', 'file.csi.azure.com'],
  ['kubernetes.io/cinder', 'cinder.csi.openstack.org'],
  ['kubernetes.io/gce-pd', 'pd.csi.storage.gke.io'],
  ['kubernetes.io/portworx-volume', 'pxd.portworx.com'],
  ['kubernetes.io/vsphere-volume', 'csi.vsphere.vmware.com'],
]);
/** In-tree volume plugins without a provisioner. */
const notProvisionable: ReadonlySet<string> = new Set(['csi', 'local-volume', 'nfs'].map((name) => `kubernetes.io/${name}`));
const hostPathPlugin = 'kubernetes.io/host-path';

/** Returns the name of the CSI driver that provisions for a StorageClass, which may name the in-tree plugin that the driver replaces. */
export const externalProvisioner = (provisioner: string): string => migrated.get(provisioner) ?? provisioner;

/** Returns upstream's error for a provisioner with an in-tree name that does not exist; undefined for external provisioners. */
export function missingProvisionerText(provisioner: string): string | undefined {
  if (!provisioner.startsWith('kubernetes.io/') || migrated.has(provisioner)) return undefined;
  if (provisioner === hostPathPlugin) return `Failed to create provisioner: provisioning in volume plugin "${hostPathPlugin}" is disabled`;
  return notProvisionable.has(provisioner) ? 'no provisionable volume plugin matched' : `no volume plugin matched name: ${provisioner}`;
}

/** Returns upstream's error for the deletion of a volume that no plugin deletes. */
export function missingDeleterText({ metadata, spec }: PersistentVolume): string {
  const hostPath = spec?.hostPath?.path;
  if (hostPath !== undefined && !/^\/tmp\/.+/.test(hostPath))
    return `host_path deleter only supports /tmp/.+ but received provided ${hostPath}`;
  // upstream deletes directories in /tmp of its own machine, which this controller does not
  const isKnown = hostPath !== undefined || spec?.nfs !== undefined || spec?.local !== undefined || spec?.csi !== undefined;
  return `error getting deleter volume plugin for volume "${metadata?.name}": no ${isKnown ? 'deletable ' : ''}volume plugin matched`;
}
