import type { Change } from './model/history.ts';
import type { StoredObject } from './model/stored-object.ts';
import type { User } from './user.ts';

interface Claim extends StoredObject {
  readonly spec: { readonly storageClassName?: string; readonly volumeName?: string };
}

/** Creates a volume for each claim of the class `soak`, and deletes those that are released. */
export class Provisioner {
  readonly #user: User;
  readonly #open = new Map<string, () => Promise<boolean>>();
  #wake: () => void = () => undefined;

  constructor(user: User) {
    this.#user = user;
  }

  see({ key, now, before }: Change): void {
    if (now?.kind === 'PersistentVolumeClaim') {
      const { storageClassName, volumeName } = (now as Claim).spec;
      if (storageClassName === 'soak' && volumeName === undefined && !before) this.#later(key, () => this.#provision(now));
    } else if (now?.kind === 'PersistentVolume' && (now.status as { readonly phase?: string } | undefined)?.phase === 'Released')
      this.#later(key, () => this.#remove(now));
  }

  async run(signal: AbortSignal): Promise<void> {
    signal.addEventListener('abort', () => this.#wake(), { once: true });
    while (!signal.aborted) {
      for (const [key, work] of [...this.#open]) {
        if (signal.aborted) break;
        if (await work()) this.#open.delete(key);
      }
      if (this.#open.size === 0 && !signal.aborted) await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }

  #later(key: string, work: () => Promise<boolean>): void {
    this.#open.set(key, work);
    this.#wake();
  }

  async #provision({ metadata: { name, namespace, uid } }: StoredObject): Promise<boolean> {
    const body = {
      apiVersion: 'v1',
      kind: 'PersistentVolume',
      metadata: { name: `pv-${uid}` },
      spec: {
        capacity: { storage: '1Mi' },
        accessModes: ['ReadWriteOnce'],
        storageClassName: 'soak',
        persistentVolumeReclaimPolicy: 'Retain',
        hostPath: { path: '/nowhere' },
        claimRef: { apiVersion: 'v1', kind: 'PersistentVolumeClaim', name, namespace, uid },
      },
    };
    const answer = await this.#user.ask('POST', '/api/v1/persistentvolumes', body);
    return answer?.status === 201 || answer?.status === 409;
  }

  async #remove({ metadata }: StoredObject): Promise<boolean> {
    const answer = await this.#user.ask('DELETE', `/api/v1/persistentvolumes/${metadata.name}`);
    return answer !== undefined && (answer.status < 300 || answer.status === 404);
  }
}
