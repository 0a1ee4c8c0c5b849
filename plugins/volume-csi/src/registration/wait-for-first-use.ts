import type { KubeObject } from '@oarlock/api/object';
import { persistentVolumeClaims, persistentVolumes } from '@oarlock/api/resources';
import type { PersistentVolume, PersistentVolumeClaim } from '@oarlock/api/types/core-v1';
import type { Informer, Informers } from '@oarlock/spi/client';
import { provisionerOf } from '../volume/provisioned-volume.ts';

/** Resolves when a PersistentVolumeClaim waits for the driver, or the driver has a volume. Rejects when the signal aborts. */
export function waitForFirstUse(driver: string, informers: Informers, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const off: (() => void)[] = [];
    let ended = false;
    const end = (then: () => void) => {
      ended = true;
      for (const each of off.splice(0)) each();
      signal.removeEventListener('abort', abort);
      then();
    };
    const abort = () => end(() => reject(signal.reason));
    const watch = <T extends KubeObject>(informer: Informer<T>, matches: (object: T) => boolean) => {
      const check = (object: T) => {
        if (matches(object)) end(resolve);
      };
      if (ended) return;
      const stop = informer.addEventHandler({ onAdd: check, onUpdate: check });
      // cached objects are delivered during addEventHandler
      if (ended) stop();
      else off.push(stop);
    };
    signal.addEventListener('abort', abort, { once: true });
    watch<PersistentVolumeClaim>(informers.forResource(persistentVolumeClaims), (claim) => provisionerOf(claim) === driver);
    watch<PersistentVolume>(informers.forResource(persistentVolumes), ({ spec }) => spec?.csi?.driver === driver);
  });
}
