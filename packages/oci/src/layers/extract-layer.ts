import { createHash } from 'node:crypto';
import { createReadStream, mkdirSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { decompressed, decompressionError } from '../archive/decompression.ts';
import { TarParser } from '../archive/tar-parser.ts';
import { OciError } from '../oci-error.ts';
import { LayerExtractor } from './layer-extractor.ts';
import type { LayerContent, LayerLimits } from './layer-record.ts';
import { removeTree } from './remove-tree.ts';

export interface ExtractLayerRequest {
  /** The file with the layer, compressed or not. */
  readonly blob: string;
  /** Directory to create. After a failure it is removed. */
  readonly root: string;
  readonly staging: string;
  /** Digest that the uncompressed layer must have. */
  readonly diffId: string;
  readonly limits: LayerLimits;
  readonly privileged: boolean;
}

const inputChunk = 1024 * 1024;

/** Extracts a layer and verifies its diff id. @throws OciError `InvalidContent`, `TooLarge`; errors of the file system */
export async function extractLayer({ blob, root, staging, diffId, limits, privileged }: ExtractLayerRequest): Promise<LayerContent> {
  const { size } = await stat(blob);
  const maxBytes = Math.min(limits.maxBytes, Math.max(limits.ratioFromBytes, size * limits.maxRatio));
  mkdirSync(root, { mode: 0o755 });
  const extractor = new LayerExtractor({ root, staging, limits: { ...limits, maxBytes }, privileged });
  const source = createReadStream(blob, { highWaterMark: inputChunk });
  try {
    const parser = new TarParser(extractor);
    const hash = createHash('sha256');
    let bytes = 0;
    for await (const buffer of decompressed(source as AsyncIterable<Buffer>)) {
      bytes += buffer.length;
      if (bytes > maxBytes) throw new OciError('TooLarge', `the layer expands to more than ${maxBytes} bytes`);
      hash.update(buffer);
      parser.push(buffer);
    }
    parser.end();
    const digest = `sha256:${hash.digest('hex')}`;
    if (digest !== diffId) throw new OciError('InvalidContent', `wrong diff id calculated on extraction ${digest}, expected ${diffId}`);
    return extractor.finish();
  } catch (error) {
    extractor.close();
    removeTree(root);
    throw decompressionError(error);
  } finally {
    source.destroy();
  }
}
