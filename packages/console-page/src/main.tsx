import { render } from 'preact';
import { App } from './app/app.tsx';
import '@xterm/xterm/css/xterm.css';
import './style.css';

const root = document.querySelector('#app');
if (root !== null) render(<App />, root);
