import { render } from "preact";

import { App } from "./shell/App.tsx";
import "./styles/base.css";
import "./styles/controls.css";
import "./styles/pages.css";
import "./styles/buying.css";
import "./styles/seats.css";

const root = document.getElementById("page");
if (root) render(<App />, root);
