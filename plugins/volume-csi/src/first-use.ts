import type { KubeObject } from '@oarlock/api/object';
import { persistentVolumeClaims, persistentVolumes } from '@oarlock/api/resources';
import type { PersistentVolume, PersistentVolumeClaim } from '@oarlock/api/types/core-v1';
import type { Informer, Informers } from '@oarlock/spi/client';
import { provisionerOf } from './provisioned-volume.ts';

/** Resolves when a claim waits for the driver, or a volume is one of its. Rejects when the signal aborts. */
export function firstUse(driver: string, informers: Informers, signal: AbortSignal): Promise<void> {
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
    const follow = <T extends KubeObject>(informer: Informer<T>, names: (object: T) => boolean) => {
      const see = (object: T) => {
        if (names(object)) end(resolve);
      };
      if (ended) return;
      const stop = informer.on({ added: see, updated: see });
      // what was cached is told at once
      if (ended) stop();
      else off.push(stop);
    };
    signal.addEventListener('abort', abort, { once: true });
    follow<PersistentVolumeClaim>(informers.of(persistentVolumeClaims), (claim) => provisionerOf(claim) === driver);
    follow<PersistentVolume>(informers.of(persistentVolumes), ({ spec }) => spec?.csi?.driver === driver);
  });
}
