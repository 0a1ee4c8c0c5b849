import { persistentVolumes, pods } from '@oarlock/api/resources';
import type { Resource } from '@oarlock/api/resource';
import { isStatus } from '@oarlock/api/status';
import type { Client, Informers } from '@oarlock/spi/client';
import { NodeGraph } from './node-graph.ts';
import { referencesOf, type Reference } from './pod-references.ts';

/**
 * Determines which objects are related to a node. Reads the graph, which informers keep current; if the graph has no path, reads the API, because an
 * informer may lag.
 */
export class NodeObjects {
  readonly #client: Client;
  readonly #graph = new NodeGraph();

  constructor(client: Client, informers: Informers) {
    this.#client = client;
    const graph = this.#graph;
    informers.forResource(pods).addEventHandler({
      onAdd: (pod) => graph.putPod(pod),
      onUpdate: (pod) => graph.putPod(pod),
      onDelete: (pod) => graph.removePod(pod),
    });
    informers.forResource(persistentVolumes).addEventHandler({
      onAdd: (volume) => graph.putVolume(volume),
      onUpdate: (volume) => graph.putVolume(volume),
      onDelete: (volume) => graph.removeVolume(volume),
    });
  }

  /** Returns true if a pod of the node references the object in the namespace. */
  async reaches(node: string, namespace: string, reference: Reference): Promise<boolean> {
    return this.#graph.reaches(node, reference) || this.#reachesNow(node, namespace, reference);
  }

  /** Returns true if a pod of the node uses the PersistentVolumeClaim that the volume is bound to. */
  async reachesVolume(node: string, name: string): Promise<boolean> {
    if (this.#graph.reachesVolume(node, name)) return true;
    const volume = await this.#find(this.#client.get(persistentVolumes, { name }));
    const { namespace, name: claim } = volume?.spec?.claimRef ?? {};
    return (
      namespace !== undefined && claim !== undefined && this.#reachesNow(node, namespace, `persistentvolumeclaims ${namespace}/${claim}`)
    );
  }

  /** Returns whether the pod is bound to the node, is unrelated to the node, or does not exist. */
  async podBinding(node: string, namespace: string, name: string): Promise<'bound' | 'unrelated' | 'not-found'> {
    if (this.#graph.isBound(node, namespace, name)) return 'bound';
    const pod = await this.#find(this.#client.get(pods, { namespace, name }));
    if (pod === undefined) return 'not-found';
    return pod.spec?.nodeName === node ? 'bound' : 'unrelated';
  }

  /** Returns true if `spec.nodeName` of a cluster-scoped object is the name of the node. */
  async isNodeNameOf(node: string, resource: Resource, name: string): Promise<boolean> {
    const object = await this.#find(this.#client.get(resource, { name }));
    return (object as { readonly spec?: { readonly nodeName?: string } } | undefined)?.spec?.nodeName === node;
  }

  async #reachesNow(node: string, namespace: string, reference: Reference): Promise<boolean> {
    const { items } = await this.#client.list(pods, { namespace, fieldSelector: `spec.nodeName=${node}` });
    return items.some((pod) => referencesOf(pod).has(reference));
  }

  async #find<T>(object: Promise<T>): Promise<T | undefined> {
    try {
      return await object;
    } catch (error) {
      if (isStatus(error, 'NotFound')) return undefined;
      throw error;
    }
  }
}
