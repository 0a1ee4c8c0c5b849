import { describe, expect, it } from 'vitest';
import type { KubeObject } from '../../../../src/api/client.ts';
import { blockersOf, remainingContent } from '../../../../src/views/object/deletion/finalizers.ts';

const object = (kind: string, finalizers: readonly string[], more: object = {}): KubeObject => ({
  kind,
  metadata: { name: 'a', uid: 'u', resourceVersion: '1', deletionTimestamp: '2026-01-01T00:00:00Z', finalizers },
  ...more,
});

describe('blockersOf', () => {
  it('names the component that removes a finalizer of Kubernetes, and its condition', () => {
    expect(blockersOf(object('PersistentVolumeClaim', ['kubernetes.io/pvc-protection', 'foregroundDeletion']))).toEqual([
      {
        finalizer: 'kubernetes.io/pvc-protection',
        remover: 'the PersistentVolumeClaim protection controller',
        when: 'no pod uses the claim',
      },
      { finalizer: 'foregroundDeletion', remover: 'the garbage collector', when: 'no dependent with blockOwnerDeletion exists' },
    ]);
  });

  it('recognizes the finalizers of drivers, whose names end with the driver', () => {
    expect(blockersOf(object('VolumeAttachment', ['external-attacher/csi-example-com']))[0]?.remover).toBe(
      'the external-attacher of the CSI driver',
    );
  });

  it('names the owner of an unknown finalizer by its domain, and of one without a domain not at all', () => {
    const blockers = blockersOf(object('ConfigMap', ['widgets.example.com/cleanup', 'mine', 'constructor']));
    expect(blockers.map(({ remover }) => remover)).toEqual([
      'the component that owns widgets.example.com',
      'an unknown component',
      'an unknown component',
    ]);
  });

  it('returns the finalizers in the spec of a namespace, and of no other kind', () => {
    const spec = { finalizers: ['kubernetes'] };
    expect(blockersOf(object('Namespace', [], { spec })).map(({ remover }) => remover)).toEqual(['the namespace controller']);
    expect(blockersOf(object('ConfigMap', [], { spec }))).toEqual([]);
  });
});

describe('remainingContent', () => {
  const status = {
    conditions: [
      { type: 'NamespaceDeletionContentFailure', status: 'False', message: 'All content successfully deleted' },
      {
        type: 'NamespaceFinalizersRemaining',
        status: 'True',
        message: 'Some content has finalizers: example.com/x in 1 resource instances',
      },
    ],
  };
  it('returns the conditions of a namespace that hold', () => {
    expect(remainingContent(object('Namespace', [], { status }))).toEqual([
      'NamespaceFinalizersRemaining: Some content has finalizers: example.com/x in 1 resource instances',
    ]);
    expect(remainingContent(object('Pod', [], { status }))).toEqual([]);
    expect(remainingContent(object('Namespace', []))).toEqual([]);
  });
});
