import { missingDeleterText, missingProvisionerText } from '@oarlock/controllers/volume/persistent-volume/in-tree-plugins';
import { describe, expect, it } from 'vitest';

describe('missingProvisionerText', () => {
  it.each([
    ['kubernetes.io/no-provisioner', 'no volume plugin matched name: kubernetes.io/no-provisioner'],
    ['kubernetes.io/glusterfs', 'no volume plugin matched name: kubernetes.io/glusterfs'],
    ['kubernetes.io/nfs', 'no provisionable volume plugin matched'],
    ['kubernetes.io/host-path', 'Failed to create provisioner: provisioning in volume plugin "kubernetes.io/host-path" is disabled'],
    ['kubernetes.io/aws-ebs', undefined],
    ['hostpath.csi.k8s.io', undefined],
  ])('of %s is %s', (provisioner, expected) => {
    expect(missingProvisionerText(provisioner)).toBe(expected);
  });
});

describe('missingDeleterText', () => {
  const volume = (source: object) => ({ metadata: { name: 'v' }, spec: { ...source } });
  it.each([
    [{ nfs: { server: 's', path: '/' } }, 'error getting deleter volume plugin for volume "v": no deletable volume plugin matched'],
    [{ local: { path: '/a' } }, 'error getting deleter volume plugin for volume "v": no deletable volume plugin matched'],
    [{ iscsi: {} }, 'error getting deleter volume plugin for volume "v": no volume plugin matched'],
    [{ hostPath: { path: '/data' } }, 'host_path deleter only supports /tmp/.+ but received provided /data'],
  ])('of %j is %s', (source, expected) => {
    expect(missingDeleterText(volume(source))).toBe(expected);
  });
});
