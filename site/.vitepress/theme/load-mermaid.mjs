import url from '@mermaid-js/tiny/dist/mermaid.tiny.js?url';

let loading;

/** Loads the renderer of diagrams, once and only on pages that have one. It is a classic script, which sets a global variable. */
export function loadMermaid() {
  loading ??= new Promise((resolve, reject) => {
    const script = document.createElement('script');
    script.src = url;
    script.onerror = () => reject(new Error(`${url} could not be loaded`));
    script.onload = () => {
      const { mermaid } = globalThis;
      mermaid.initialize({ startOnLoad: false, theme: document.documentElement.classList.contains('dark') ? 'dark' : 'default' });
      resolve(mermaid);
    };
    document.head.append(script);
  });
  return loading;
}
