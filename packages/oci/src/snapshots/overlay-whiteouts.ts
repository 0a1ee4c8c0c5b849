import { link, lstat, mkdir, readdir, rm, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { bytePath, osPath, type BytePath } from '../archive/byte-path.ts';
import type { StoredLayer } from '../layers/layer-store.ts';
import { makeSpecialFile } from '../layers/special-files.ts';
import { OciError } from '../oci-error.ts';

const isCode = (error: unknown, ...codes: readonly string[]) => codes.includes((error as NodeJS.ErrnoException).code ?? '');

async function statOf(path: BytePath) {
  try {
    return await lstat(osPath(path));
  } catch (error) {
    if (isCode(error, 'ENOENT', 'ENOTDIR')) return undefined;
    throw error;
  }
}

/** Returns the path of a directory in a layer, if none of its components is a link. */
async function directoryIn(layer: StoredLayer, path: BytePath): Promise<BytePath | undefined> {
  let at = bytePath(layer.files);
  for (const name of path === '' ? [] : path.split('/')) {
    at = `${at}/${name}`;
    if ((await statOf(at))?.isDirectory() !== true) return undefined;
  }
  return at;
}

/**
 * Writes the whiteouts of extracted layers in the form of overlayfs: character devices 0/0, which are hard links of one device. Opaque directories get a
 * whiteout for each name that the lower layers have, instead of an extended attribute, which Node cannot set. A marker file is written when a layer is done.
 */
export class OverlayWhiteouts {
  readonly #directory: string;
  #device: Promise<string> | undefined;
  #devices = 0;

  /** @param directory a directory for the devices, on the file system of the layers; its content is removed */
  constructor(directory: string) {
    this.#directory = directory;
  }

  /** @throws OciError `FailedPrecondition` if this machine does not allow whiteouts */
  async write(layers: readonly StoredLayer[]): Promise<void> {
    for (const [index, layer] of layers.entries()) {
      if (index === 0 || (layer.whiteouts.length === 0 && layer.opaques.length === 0)) continue;
      const marker = join(layer.files, '..', 'whiteouts');
      if (await statOf(bytePath(marker))) continue;
      for (const path of layer.whiteouts) await this.#hide(`${bytePath(layer.files)}/${path}`);
      for (const path of layer.opaques) await this.#hideContent(layer, path, layers.slice(0, index));
      await writeFile(marker, '');
    }
  }

  async #hideContent(layer: StoredLayer, path: BytePath, lower: readonly StoredLayer[]): Promise<void> {
    const directory = await directoryIn(layer, path);
    if (directory === undefined) return;
    const below = path === '' ? '' : `${path}/`;
    for (const each of lower) {
      const hidden = await directoryIn(each, path);
      if (hidden === undefined) continue;
      for (const name of await readdir(osPath(hidden), { encoding: 'latin1' })) {
        const own = await statOf(`${directory}/${name}`);
        if (!own) await this.#hide(`${directory}/${name}`);
        else if (own.isDirectory()) await this.#hideContent(layer, `${below}${name}`, [each]);
      }
    }
  }

  async #hide(path: BytePath): Promise<void> {
    for (;;) {
      const device = await (this.#device ??= this.#makeDevice());
      try {
        await link(device, osPath(path));
        return;
      } catch (error) {
        // an interrupted attempt wrote it
        if (isCode(error, 'EEXIST')) return;
        if (!isCode(error, 'EMLINK')) throw error;
        this.#device = undefined;
      }
    }
  }

  async #makeDevice(): Promise<string> {
    if (this.#devices === 0) {
      await rm(this.#directory, { recursive: true, force: true });
      await mkdir(this.#directory, { mode: 0o700 });
    }
    this.#devices += 1;
    const path = join(this.#directory, `${this.#devices}`);
    const reason = makeSpecialFile(bytePath(path), { type: 'character-device', major: 0, minor: 0 });
    if (reason !== undefined) throw new OciError('FailedPrecondition', `whiteouts cannot be created: ${reason}`);
    return path;
  }

  /** Checks that this machine allows whiteouts. @throws OciError `FailedPrecondition` */
  async check(): Promise<void> {
    await (this.#device ??= this.#makeDevice());
  }

  async removeDevices(): Promise<void> {
    const device = await this.#device;
    if (device !== undefined) await unlink(device);
    this.#device = undefined;
  }
}
