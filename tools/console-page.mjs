// Builds the page of the web console into `packages/console-page/dist/page`: scripts and styles with a hash of their content in their names, each
// compressed with gzip, because the API server sends them compressed.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';

const root = fileURLToPath(new URL('..', import.meta.url));
const source = join(root, 'packages', 'console-page', 'src');
export const pageFolder = join(root, 'packages', 'console-page', 'dist', 'page');

/** Builds the page. @throws the errors of esbuild */
export async function buildPage(outdir = pageFolder) {
  const { build } = await import('esbuild'); // does not exist before the packages are installed
  const { outputFiles, metafile } = await build({
    entryPoints: [join(source, 'main.tsx')],
    outdir,
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'browser',
    target: ['chrome111', 'firefox113', 'safari16.4'],
    // packages that servers share with the page check addresses with Node's functions
    alias: { 'node:net': join(source, 'platform', 'net.ts') },
    jsx: 'automatic',
    jsxImportSource: 'preact',
    entryNames: '[name]-[hash]',
    chunkNames: '[name]-[hash]',
    minify: true,
    charset: 'utf8',
    legalComments: 'none',
    metafile: true,
    write: false,
    logLevel: 'silent',
  });
  const pathOf = (extension) =>
    Object.entries(metafile.outputs).find(
      ([name, { entryPoint }]) => name.endsWith(extension) && (extension === '.css' || entryPoint?.endsWith('main.tsx')),
    )[0];
  const preloads = staticImports(metafile.outputs, pathOf('.js')).map((path) => `<link rel="modulepreload" href="${basename(path)}">`);
  const html = readFileSync(join(source, 'index.html'), 'utf8')
    .replace('{{style}}', basename(pathOf('.css')))
    .replace('{{preloads}}', preloads.join('\n'))
    .replace('{{script}}', basename(pathOf('.js')));
  rmSync(outdir, { recursive: true, force: true });
  mkdirSync(outdir, { recursive: true });
  const write = (name, content) => writeFileSync(join(outdir, `${name}.gz`), gzipSync(content, { level: 9 }));
  write('index.html', html);
  write('icon.svg', readFileSync(join(source, 'icon.svg')));
  for (const { path, contents } of outputFiles) write(basename(path), contents);
}

/** Returns the modules that a module loads before it runs. Without a hint in the page, the browser finds them when it has received the module. */
function staticImports(outputs, path, found = new Set()) {
  for (const { path: imported, kind } of outputs[path].imports) {
    if (kind !== 'import-statement' || found.has(imported)) continue;
    found.add(imported);
    staticImports(outputs, imported, found);
  }
  return [...found];
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await buildPage();
