import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { defineConfig } from 'vitepress';
import { slugOf } from '../../tools/checks/links.mjs';

const pages = join(import.meta.dirname, '..', 'pages');

/** Returns the title of a page: its first heading. */
const titleOf = (file) => /^# (.+)$/m.exec(readFileSync(join(pages, file), 'utf8'))?.[1].replaceAll('`', '') ?? file;
const item = (file) => ({ text: titleOf(file), link: `/${file.replace(/README\.md$/, '').replace(/\.md$/, '')}` });
/** Returns the pages of a folder in the order of their names. */
const pagesOf = (folder) =>
  readdirSync(join(pages, folder))
    .filter((name) => name.endsWith('.md') && name !== 'README.md')
    .sort()
    .map((name) => item(`${folder}/${name}`));
/** Returns the page `name` of each folder in `group` that has one. */
const each = (group, name) =>
  readdirSync(join(pages, group))
    .sort()
    .map((folder) => `${group}/${folder}/${name}`)
    .filter((file) => existsSync(join(pages, file)))
    .map(item);
const groups = (folder) => readdirSync(join(pages, folder)).filter((name) => statSync(join(pages, folder, name)).isDirectory()).sort();

const sidebar = [
  { text: 'Documentation', items: [item('README.md'), ...pagesOf('docs')] },
  { text: 'Slots', collapsed: true, items: pagesOf('docs/slots') },
  { text: 'Plugins', collapsed: true, items: each('plugins', 'README.md') },
  { text: 'Examples', collapsed: true, items: each('examples/plugins', 'README.md') },
  { text: 'Design of packages', collapsed: true, items: [...each('packages', 'ARCHITECTURE.md'), ...each('packages', 'README.md')] },
  { text: 'Decisions', collapsed: true, items: [item('docs/adr/README.md'), ...pagesOf('docs/adr')] },
  { text: 'API reference', collapsed: true, items: [item('api/README.md'), ...groups('api').map((name) => ({ text: name, link: `/api/#${name}` }))] },
];

export default defineConfig({
  title: 'Oarlock',
  description: 'A Kubernetes in TypeScript',
  head: [['link', { rel: 'icon', href: 'data:,' }]],
  srcDir: 'pages',
  outDir: 'dist',
  cacheDir: '.vitepress/cache',
  ignoreDeadLinks: 'localhostLinks',
  rewrites: (file) => file.replace(/(^|\/)README\.md$/, '$1index.md'),
  vite: { logLevel: 'warn', build: { chunkSizeWarningLimit: 4_000 } },
  markdown: {
    // `<word>` in a page is text, not a component
    html: false,
    anchor: { slugify: slugOf },
    config(md) {
      const fence = md.renderer.rules.fence;
      md.renderer.rules.fence = (tokens, index, ...rest) =>
        tokens[index].info.trim() === 'mermaid'
          ? `<MermaidDiagram code="${encodeURIComponent(tokens[index].content)}" />`
          : fence(tokens, index, ...rest);
    },
  },
  themeConfig: {
    sidebar,
    nav: [
      { text: 'Tutorial', link: '/docs/tutorial-plugin' },
      { text: 'API reference', link: '/api/' },
    ],
    search: { provider: 'local' },
    outline: [2, 3],
  },
});
