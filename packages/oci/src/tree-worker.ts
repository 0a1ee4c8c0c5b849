import { parentPort } from 'node:worker_threads';
import { bytePath } from './archive/byte-path.ts';
import { copyLayers, type CopyLayersRequest } from './layers/copy-layers.ts';
import { extractLayer, type ExtractLayerRequest } from './layers/extract-layer.ts';
import { treeUsage } from './layers/layer-extractor.ts';
import { removeTree } from './layers/remove-tree.ts';
import type { TreeWork, TreeWorkAnswer, TreeWorkKind, TreeWorkMessage } from './layers/worker-protocol.ts';
import { OciError } from './oci-error.ts';

// The program of the threads of `layers/tree-workers.ts`.

async function run({ kind, request }: TreeWorkMessage): Promise<TreeWork[TreeWorkKind]['result']> {
  if (kind === 'extract') return extractLayer(request as ExtractLayerRequest);
  if (kind === 'usage') return treeUsage(bytePath((request as { readonly path: string }).path));
  if (kind === 'copy') copyLayers(request as CopyLayersRequest);
  else removeTree((request as { readonly path: string }).path);
  return null;
}

parentPort?.on('message', (message: TreeWorkMessage) => {
  run(message).then(
    (result) => parentPort?.postMessage({ result } satisfies TreeWorkAnswer),
    (error: NodeJS.ErrnoException) =>
      parentPort?.postMessage({
        error: { message: error.message, ...(error.code !== undefined && { code: error.code }), isOciError: error instanceof OciError },
      } satisfies TreeWorkAnswer),
  );
});
