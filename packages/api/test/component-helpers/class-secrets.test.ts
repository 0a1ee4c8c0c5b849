import { describe, expect, it } from 'vitest';
import { claimTokens, secretReference } from '../../src/component-helpers/class-secrets.ts';

const claim = (name: string, annotations: Readonly<Record<string, string>> = {}) => ({
  apiVersion: 'v1',
  kind: 'PersistentVolumeClaim',
  metadata: { namespace: 'team', name, annotations },
});
const secretOf = (name: string, namespace: string, of = claim('data')) =>
  secretReference(
    { 'csi.storage.k8s.io/node-publish-secret-name': name, 'csi.storage.k8s.io/node-publish-secret-namespace': namespace },
    'node-publish',
    claimTokens('pvc-1', of),
  );

// https://kubernetes-csi.github.io/docs/secrets-and-credentials-storage-class.html
describe('the Secret of a class', () => {
  it('may depend on the volume, the claim and its annotations in its name', () => {
    expect(secretOf('${pvc.namespace}-${pvc.name}-${pv.name}', 'csi')).toEqual({ name: 'team-data-pvc-1', namespace: 'csi' });
    expect(secretOf("${pvc.annotations['a/key']}", '${pvc.namespace}', claim('data', { 'a/key': 'mine' }))).toEqual({
      name: 'mine',
      namespace: 'team',
    });
    expect(secretOf('key', '${pv.name}')).toEqual({ name: 'key', namespace: 'pvc-1' });
  });
  it('is never of a namespace that the user of a claim chooses', () => {
    expect(() => secretOf('key', '${pvc.name}', claim('kube-system'))).toThrow(
      'node-publish-secret-namespace: ${pvc.name} stands for nothing',
    );
    expect(() => secretOf('key', "${pvc.annotations['a']}", claim('data', { a: 'kube-system' }))).toThrow('stands for nothing');
  });
  it("is never of a user's snapshot name", () => {
    const parameters = {
      'csi.storage.k8s.io/snapshotter-secret-name': 'key',
      'csi.storage.k8s.io/snapshotter-secret-namespace': '${volumesnapshot.name}',
    };
    expect(() => secretReference(parameters, 'snapshotter', { 'volumesnapshot.name': 'kube-system' })).toThrow('stands for nothing');
  });
  it.each(['a/b', '..', 'a b', '', 'A'])('has no name that is not one: %j', (text) => {
    expect(() => secretOf("${pvc.annotations['a']}", 'csi', claim('data', { a: text }))).toThrow('is not the name of a Secret');
  });
  it('has no variables of the language', () => {
    expect(() => secretOf('${constructor}', 'csi')).toThrow('${constructor} stands for nothing');
  });
});
